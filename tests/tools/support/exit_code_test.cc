#include "tools/support/exit_code.h"

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

TEST(ExitCodeTest, TellsUserErrorsFromFailures) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), 2);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("x")), 2);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("x")), 2);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("x")), 2);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), 3);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("x")), 3);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("x")), 3);
}

}  // namespace
}  // namespace sluice::tools
