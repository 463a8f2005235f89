#include "bench/store/system/child_output.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/file_descriptor.h"

namespace sluice::bench {
namespace {

constexpr std::chrono::milliseconds kPollTime{10};
constexpr std::chrono::seconds kTerminateTime{3};

using Clock = std::chrono::steady_clock;

/// Files, process group and signals that posix_spawn sets for the child.
class SpawnSetUp {
 public:
  explicit SpawnSetUp(int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetUp() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSetUp(const SpawnSetUp&) = delete;
  SpawnSetUp& operator=(const SpawnSetUp&) = delete;

  absl::StatusOr<pid_t> Spawn(std::span<const std::string> words) const {
    std::vector<std::string> copies(words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : copies) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t process = -1;
    const int error = posix_spawnp(
        &process, arguments.front(), &actions_, &attributes_, arguments.data(), environ);
    if (error != 0) return base::StatusFromErrno(error, "start " + copies.front());
    return process;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

int WaitFor(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The child has ended, but nobody has waited for it yet. So its number belongs to no other
/// process.
bool HasEnded(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == process;
}

absl::Status WaitForEnd(pid_t process, const ChildOptions& options) {
  const Clock::time_point start = Clock::now();
  while (!HasEnded(process)) {
    if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
    if (Clock::now() - start > std::chrono::duration<double>(options.seconds_max)) {
      return absl::DeadlineExceededError(base::ToAbsl(fmt::format(
          "{} had not ended after {} seconds", options.words.front(), options.seconds_max)));
    }
    std::this_thread::sleep_for(kPollTime);
  }
  return absl::OkStatus();
}

/// Asks the program to end first: fio gives each of its children a session, which it alone can end.
void Terminate(pid_t process) {
  kill(-process, SIGTERM);
  const Clock::time_point start = Clock::now();
  while (!HasEnded(process) && Clock::now() - start < kTerminateTime) {
    std::this_thread::sleep_for(kPollTime);
  }
  kill(-process, SIGKILL);
}

absl::StatusOr<std::string> ReadWhole(int fd) {
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(fd, 0, SEEK_END))), ' ');
  const ssize_t count = pread(fd, text.data(), text.size(), 0);
  if (count < 0) return base::StatusFromErrno(errno, "read the output");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace

absl::StatusOr<ChildOutput> RunChild(const ChildOptions& options) {
  const io::FileDescriptor output(memfd_create("output", MFD_CLOEXEC));
  if (!output.valid()) return base::StatusFromErrno(errno, "memfd_create");
  SLUICE_ASSIGN_OR_RETURN(const pid_t process, SpawnSetUp(output.get()).Spawn(options.words));
  const absl::Status ended = WaitForEnd(process, options);
  if (!ended.ok()) Terminate(process);
  const int exit_code = WaitFor(process);
  if (!ended.ok()) return ended;
  SLUICE_ASSIGN_OR_RETURN(std::string text, ReadWhole(output.get()));
  return ChildOutput{.exit_code = exit_code, .text = std::move(text)};
}

}  // namespace sluice::bench
