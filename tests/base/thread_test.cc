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

/// Message of StartThread in a child that gets no thread. `resource` is limited to 4 TiB there.
std::string RefusalUnder(__rlimit_resource resource) {
  return testing::RunInChild([resource]() -> std::string {
    const rlimit limit{.rlim_cur = rlim_t{1} << 42, .rlim_max = RLIM_INFINITY};
    if (setrlimit(resource, &limit) != 0) return "no limit is set";
    const std::string failed =
        testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    return StartThread([] {}).status().ToString();
  });
}

TEST(StartThreadTest, ALimitOfStacksIsNamedWhereThereIsOne) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  const std::string always =
      "RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN; see ulimit -u, pids.max of the "
      "control group and kernel.threads-max";
  EXPECT_EQ(RefusalUnder(RLIMIT_AS),
            always + ", and ulimit -v, which allows 4294967296 KiB of addresses, stacks included");
  EXPECT_EQ(RefusalUnder(RLIMIT_DATA),
            always + ", and ulimit -d, which allows 4294967296 KiB of data, stacks included");
}

}  // namespace
}  // namespace sluice::base
