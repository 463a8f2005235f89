#include "tests/support/child_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace sluice::testing {
namespace {

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = read(fd, part.data(), part.size()); got > 0;
       got = read(fd, part.data(), part.size())) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

[[noreturn]] void RunBody(const std::function<std::string()>& body, int fd) {
  const std::string text = body();
  const ssize_t written = write(fd, text.data(), text.size());
  _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

// Goes with its parent, should that end first.
[[noreturn]] void WorkUntilKilled(const std::function<void(const std::function<void()>&)>& work,
                                  int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work([fd] {
    if (write(fd, "x", 1) != 1) _exit(1);
  });
  _exit(1);
}

// Takes it from the calling thread. The C library has no wrapper for this.
bool DropCapability(unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const std::uint32_t mask = ~CAP_TO_MASK(capability);
  data[CAP_TO_INDEX(capability)].effective &= mask;
  data[CAP_TO_INDEX(capability)].permitted &= mask;
  return syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

std::string RunInChild(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::string("pipe: ") + std::strerror(errno);
  const pid_t child = fork();
  if (child < 0) return std::string("fork: ") + std::strerror(errno);
  if (child == 0) {
    close(ends[0]);
    RunBody(body, ends[1]);
  }
  close(ends[1]);
  std::string text = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) text += " (child died, wait status " + std::to_string(status) + ")";
  return text;
}

std::string KillAtWork(const std::function<void(const std::function<void()>& begun)>& work,
                       const std::function<std::string()>& look) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::string("pipe: ") + std::strerror(errno);
  const pid_t child = fork();
  if (child < 0) return std::string("fork: ") + std::strerror(errno);
  if (child == 0) {
    close(ends[0]);
    WorkUntilKilled(work, ends[1]);
  }
  close(ends[1]);
  char begun = 0;
  std::string wrong = read(ends[0], &begun, 1) == 1 ? look() : "the child did not begin";
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (wrong.empty() && !killed) wrong = "the child ended before it was killed";
  return wrong;
}

namespace {

std::uint32_t FailWith(int error_number) {
  return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error_number) & SECCOMP_RET_DATA);
}

template <std::size_t kLength>
std::string Install(std::array<sock_filter, kLength> program) {
  sock_fprog filter{.len = kLength, .filter = program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no_new_privs refused";
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return std::string("seccomp: ") + std::strerror(errno);
  }
  return {};
}

/// Offset of the low half of a system call's argument.
constexpr std::uint32_t ArgumentAt(std::size_t index) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * index);
}

}  // namespace

std::string RefuseSystemCall(long number, int error_number, Refuse when) {
  const std::uint8_t skip_if_zero = when == Refuse::kWhenSecondArgument ? 1 : 0;
  const std::uint32_t refused =
      when == Refuse::kByDeath ? SECCOMP_RET_KILL_PROCESS : FailWith(error_number);
  // A comparison of the second argument has no effect if there is no condition.
  return Install<6>({{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ArgumentAt(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, skip_if_zero, 0),
      BPF_STMT(BPF_RET | BPF_K, refused),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }});
}

std::string RefuseNamelessFiles(int error_number) {
  constexpr std::uint32_t kNameless = O_TMPFILE & ~O_DIRECTORY;
  return Install<6>({{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ArgumentAt(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNameless, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, FailWith(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }});
}

std::string LimitLockedMemory(std::uint64_t bytes) {
  if (geteuid() == 0) {
    // No login has this number. The account stays shared if the number is not mapped.
    constexpr uid_t kFirst = 1'000'000'000;
    static_cast<void>(setresuid(kFirst + static_cast<uid_t>(getpid()), 0, 0));
    // Exempt from the limit by it.
    if (!DropCapability(CAP_IPC_LOCK)) return "capset";
  }
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? "" : "setrlimit";
}

}  // namespace sluice::testing
