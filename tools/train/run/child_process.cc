#include "tools/train/run/child_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/status.h"
#include "tools/support/interrupt.h"

namespace sluice::tools {
namespace {

/// Owns what posix_spawn does to the child's descriptors.
class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  void Duplicate(int source, int target) {
    posix_spawn_file_actions_adddup2(&actions_, source, target);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

absl::StatusOr<pid_t> Spawn(std::span<const std::string> words, const FileActions& actions) {
  std::vector<std::string> copies(words.begin(), words.end());
  copies.insert(copies.begin(), "sluice");
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int error =
      posix_spawn(&process, "/proc/self/exe", actions.get(), nullptr, arguments.data(), environ);
  if (error != 0) return base::StatusFromErrno(error, "start the other run");
  return process;
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(std::span<const std::string> words) {
  auto ends = MakeChannel();
  if (!ends.ok()) return ends.status();
  FileActions actions;
  actions.Duplicate(ends->second, STDIN_FILENO);
  actions.Duplicate(STDERR_FILENO, STDOUT_FILENO);
  const absl::StatusOr<pid_t> process = Spawn(words, actions);
  close(ends->second);
  if (!process.ok()) return process.status();
  return ChildProcess(std::move(ends->first), *process);
}

ChildProcess::~ChildProcess() {
  if (process_ < 0) return;
  channel_.Close();
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void BecomeChild() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int interrupt : kInterrupts) signal(interrupt, SIG_IGN);
}

}  // namespace sluice::tools
