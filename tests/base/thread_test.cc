#include "base/thread.h"

#include <sys/syscall.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"

namespace sluice::base {
namespace {

TEST(StartThreadTest, RunsTheBody) {
  bool ran = false;
  absl::StatusOr<std::thread> thread = StartThread([&ran] { ran = true; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_TRUE(ran);
}

TEST(StartThreadTest, AThreadThatIsRefusedIsAnErrorThatNamesTheLimits) {
  const std::string text = testing::RunInChild([]() -> std::string {
    const std::string failed =
        testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    const absl::StatusOr<std::thread> thread = StartThread([] {});
    return thread.status().ToString();
  });
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN; see ulimit -u, pids.max of "
            "the control group and kernel.threads-max");
}

bool IsBlocked(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(SignalsBlockedTest, OnlyForTheScopeAndNeverWhatAnInstructionDid) {
  {
    const SignalsBlocked blocked;
    for (const int signal : {SIGTERM, SIGALRM, SIGPROF, SIGXFSZ}) EXPECT_TRUE(IsBlocked(signal));
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT_FALSE(IsBlocked(signal));
    { const SignalsBlocked again; }
    EXPECT_TRUE(IsBlocked(SIGTERM)) << "by the outer one";
  }
  EXPECT_FALSE(IsBlocked(SIGTERM));
}

}  // namespace
}  // namespace sluice::base
