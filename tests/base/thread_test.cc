#include "base/thread.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"

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

TEST(StartThreadTest, ALimitOfAddressesIsNamedWhereThereIsOne) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  const std::string text = testing::RunInChild([]() -> std::string {
    const rlimit limit{.rlim_cur = rlim_t{1} << 42, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return "no limit is set";
    const std::string failed =
        testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    return StartThread([] {}).status().ToString();
  });
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN; see ulimit -u, pids.max of "
            "the control group and kernel.threads-max, and ulimit -v, which allows 4294967296 KiB "
            "of addresses, stacks included");
}

}  // namespace
}  // namespace sluice::base
