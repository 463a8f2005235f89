#include "tests/tools/command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/project_paths.h"

namespace sluice::tools {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The signals act on the command as on one that a user starts, even where the tests run under
/// nohup.
void SetDefaultSignals(posix_spawnattr_t* attributes) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU, SIGUSR1, SIGUSR2})
    sigaddset(&signals, number);
  posix_spawnattr_setsigdefault(attributes, &signals);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF);
}

/// The command's own words; a shell that enters the cgroup first where there is one, and the
/// program that runs it.
std::vector<std::string> Program(const Command::Surroundings& surroundings) {
  std::vector<std::string> words = surroundings.run_by;
  if (!surroundings.cgroup_processes.empty()) {
    words.insert(
        words.begin(),
        {"/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", surroundings.cgroup_processes});
  }
  words.push_back(testing::SluiceCommand());
  return words;
}

}  // namespace

Command::Command(const std::vector<std::string>& words, const Surroundings& surroundings) {
  std::vector<std::string> arguments = Program(surroundings);
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<std::string> variables = surroundings.variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::array<int, 2> ends;
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const std::string errors_path =
      surroundings.errors_path.empty() ? directory_ / "errors" : surroundings.errors_path;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!surroundings.input_path.empty()) {
    posix_spawn_file_actions_addopen(
        &actions, STDIN_FILENO, surroundings.input_path.c_str(), O_RDONLY | O_NOCTTY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (!surroundings.output_path.empty()) {
    posix_spawn_file_actions_addopen(
        &actions, STDOUT_FILENO, surroundings.output_path.c_str(), O_WRONLY, 0);
  }
  posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, errors_path.c_str(), O_WRONLY | O_CREAT, 0600);
  for (const int descriptor : surroundings.closed) {
    posix_spawn_file_actions_addclose(&actions, descriptor);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  SetDefaultSignals(&attributes);
  const int error = posix_spawn(&process_,
                                arguments.front().c_str(),
                                &actions,
                                &attributes,
                                Pointers(arguments).data(),
                                Pointers(variables).data());
  EXPECT_EQ(error, 0);
  if (error != 0) process_ = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  descriptor_ = ends[0];
}

Command::~Command() {
  if (process_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  CloseOutput();
}

bool Command::ReadMore() {
  std::array<char, 4096> buffer;
  ssize_t count = -1;
  do {
    count = read(descriptor_, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  output_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

bool Command::ReadUntil(const std::string& text) {
  while (output_.find(text) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  return true;
}

void Command::Signal(int number) const {
  // A process number of -1 would mean every process.
  if (process_ > 0) kill(process_, number);
}

void Command::CloseOutput() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

int Command::Wait() {
  while (ReadMore()) {
  }
  if (process_ <= 0) return -1;
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace sluice::tools
