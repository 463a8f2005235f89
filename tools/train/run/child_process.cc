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

sigset_t WatchedSet() {
  sigset_t set;
  sigemptyset(&set);
  for (const int watched : WatchedSignals()) sigaddset(&set, watched);
  return set;
}

absl::StatusOr<pid_t> Spawn(std::span<const std::string> words, const FileActions& actions) {
  std::vector<std::string> copies(words.begin(), words.end());
  copies.insert(copies.begin(), "sluice");
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // A signal to the whole group must not end the child before it ignores signals.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t watched = WatchedSet();
  posix_spawnattr_setsigmask(&attributes, &watched);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = -1;
  const int error = posix_spawn(
      &process, "/proc/self/exe", actions.get(), &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
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
  for (const int watched : WatchedSignals()) signal(watched, SIG_IGN);
  const sigset_t set = WatchedSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace sluice::tools
