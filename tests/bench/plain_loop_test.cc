#include "bench/store/plain_loop.h"

#include <sys/syscall.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"

namespace sluice::bench {
namespace {

std::string CheckWithout(long system_call, int error_number) {
  return testing::RunInChild([&] {
    const std::string failed =
        testing::RefuseSystemCall(system_call, error_number, testing::Refuse::kEveryCall);
    return failed.empty() ? CheckIoUring().ToString() : failed;
  });
}

TEST(CheckIoUringTest, SaysWhichCallIsRefusedAndWhatToDo) {
  const std::string allow =
      ": allow it (kernel.io_uring_disabled = 0, the seccomp profile of a container)";
  EXPECT_EQ(CheckWithout(SYS_io_uring_setup, EPERM),
            "FAILED_PRECONDITION: io_uring is refused here (io_uring_queue_init: EPERM)" + allow);
  EXPECT_EQ(CheckWithout(SYS_io_uring_setup, ENOMEM),
            "FAILED_PRECONDITION: io_uring is refused here (io_uring_queue_init: ENOMEM)"
            ": raise the limit of locked memory (ulimit -l)");
  EXPECT_EQ(CheckWithout(SYS_io_uring_enter, EPERM),
            "FAILED_PRECONDITION: io_uring is refused here (io_uring_enter: EPERM)" + allow);
}

}  // namespace
}  // namespace sluice::bench
