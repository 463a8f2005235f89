#include "bench/store/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/status.h"
#include "io/file_descriptor.h"

namespace sluice::bench {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr int kTerminatePolls = 60;

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

/// False when interrupted.
bool ReadAll(int fd, const InterruptedFn& interrupted, std::string* text) {
  for (;;) {
    if (interrupted && interrupted()) return false;
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMilliseconds) > 0 && !ReadMore(fd, text)) return true;
  }
}

/// Asks the program to end, and waits until nobody holds the pipe any more: a child of fio has a
/// session of its own, which only fio can end. Who does not listen is killed.
void Terminate(pid_t process, int fd) {
  kill(-process, SIGTERM);
  std::string ignored;
  for (int polls = 0; polls < kTerminatePolls; ++polls) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMilliseconds) > 0 && !ReadMore(fd, &ignored)) return;
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
  const bool whole = ReadAll(reader.get(), options.interrupted, &output.text);
  if (!whole) Terminate(*process, reader.get());
  output.exit_code = WaitFor(*process);
  if (!whole) return absl::CancelledError("interrupted");
  return output;
}

}  // namespace sluice::bench
