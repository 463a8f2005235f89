#include "bench/store/machine/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/file_descriptor.h"

namespace sluice::bench {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr std::chrono::seconds kTerminateTime{3};

/// What posix_spawn does on the way to the child.
class SpawnSetUp {
 public:
  SpawnSetUp(int output, const std::vector<int>& inherited) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    AddInherited(inherited);
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

  /// By way of numbers that none of them has: one may be where another is to go.
  void AddInherited(const std::vector<int>& inherited) {
    const auto count = static_cast<int>(inherited.size());
    int high = kFirstInheritedFd + count;
    for (const int fd : inherited) high = std::max(high, fd + 1);
    for (int i = 0; i < count; ++i) {
      posix_spawn_file_actions_adddup2(&actions_, inherited[static_cast<std::size_t>(i)], high + i);
    }
    for (int i = 0; i < count; ++i) {
      posix_spawn_file_actions_adddup2(&actions_, high + i, kFirstInheritedFd + i);
      posix_spawn_file_actions_addclose(&actions_, high + i);
    }
  }

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

/// False at the end of the pipe.
bool ReadMore(int fd, std::string* text) {
  std::array<char, 4096> buffer;
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR;
  text->append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

using Clock = std::chrono::steady_clock;

/// Whether it may go on.
absl::Status CheckLimits(const ChildOptions& options,
                         Clock::time_point start,
                         const std::string& text) {
  if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
  const std::string& name = options.words.front();
  if (Clock::now() - start > std::chrono::duration<double>(options.seconds_max)) {
    return absl::DeadlineExceededError(
        base::ToAbsl(fmt::format("{} had not ended after {} seconds", name, options.seconds_max)));
  }
  if (text.size() <= options.text_max) return absl::OkStatus();
  return absl::InternalError(
      base::ToAbsl(fmt::format("{} printed more than {} bytes", name, options.text_max)));
}

/// Until the end of the pipe.
absl::Status ReadAll(int fd,
                     const ChildOptions& options,
                     Clock::time_point start,
                     std::string* text) {
  for (;;) {
    SLUICE_RETURN_IF_ERROR(CheckLimits(options, start, *text));
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMilliseconds) > 0 && !ReadMore(fd, text)) return absl::OkStatus();
  }
}

/// It has ended, and is still to be waited for, so that its number is nobody else's.
bool HasEnded(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == process;
}

/// That has closed its output, as a rule because it ends.
absl::Status WaitForEnd(pid_t process, const ChildOptions& options, Clock::time_point start) {
  while (!HasEnded(process)) {
    SLUICE_RETURN_IF_ERROR(CheckLimits(options, start, ""));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return absl::OkStatus();
}

/// Asks the program to end, and waits until nobody holds the pipe any more: a child of fio has a
/// session of its own, which only fio can end. Who does not listen is killed.
void Terminate(pid_t process, int fd) {
  kill(-process, SIGTERM);
  const Clock::time_point start = Clock::now();
  bool open = true;
  while (Clock::now() - start < kTerminateTime) {
    std::string ignored;
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (open && poll(&readable, 1, kPollMilliseconds) > 0) open = ReadMore(fd, &ignored);
    if (!open && HasEnded(process)) return;
    if (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(-process, SIGKILL);
}

}  // namespace

absl::StatusOr<ChildOutput> RunChild(const ChildOptions& options) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return base::StatusFromErrno(errno, "pipe");
  const io::FileDescriptor reader(ends[0]);
  absl::StatusOr<pid_t> process = absl::UnknownError("not started");
  {
    const io::FileDescriptor writer(ends[1]);
    process = SpawnSetUp(writer.get(), options.inherited_fds).Spawn(options.words);
  }
  if (!process.ok()) return process.status();
  ChildOutput output;
  const Clock::time_point start = Clock::now();
  absl::Status whole = ReadAll(reader.get(), options, start, &output.text);
  if (whole.ok()) whole = WaitForEnd(*process, options, start);
  if (!whole.ok()) Terminate(*process, reader.get());
  output.exit_code = WaitFor(*process);
  if (!whole.ok()) return whole;
  return output;
}

}  // namespace sluice::bench
