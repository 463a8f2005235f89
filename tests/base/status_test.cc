#include "base/status.h"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::base {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct ErrnoCase {
  int error_number;
  absl::StatusCode code;
};

class StatusFromErrnoTest : public ::testing::TestWithParam<ErrnoCase> {};

TEST_P(StatusFromErrnoTest, MapsCodeAndNamesTheErrno) {
  const auto [error_number, code] = GetParam();
  const absl::Status status = StatusFromErrno(error_number, "open spill file");
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(ToStd(status.message()));
  EXPECT_THAT(message, StartsWith("open spill file: "));
  EXPECT_THAT(message, HasSubstr(std::string(ErrnoName(error_number))));
}

INSTANTIATE_TEST_SUITE_P(
    AllDocumented,
    StatusFromErrnoTest,
    ::testing::Values(ErrnoCase{ENOSPC, absl::StatusCode::kResourceExhausted},
                      ErrnoCase{EDQUOT, absl::StatusCode::kResourceExhausted},
                      ErrnoCase{EFBIG, absl::StatusCode::kResourceExhausted},
                      ErrnoCase{ENOMEM, absl::StatusCode::kResourceExhausted},
                      ErrnoCase{EPERM, absl::StatusCode::kPermissionDenied},
                      ErrnoCase{EACCES, absl::StatusCode::kPermissionDenied},
                      ErrnoCase{ENOENT, absl::StatusCode::kNotFound},
                      ErrnoCase{EEXIST, absl::StatusCode::kAlreadyExists},
                      ErrnoCase{EROFS, absl::StatusCode::kFailedPrecondition},
                      ErrnoCase{EINVAL, absl::StatusCode::kInvalidArgument},
                      ErrnoCase{ENOTDIR, absl::StatusCode::kInvalidArgument},
                      ErrnoCase{EISDIR, absl::StatusCode::kInvalidArgument},
                      ErrnoCase{ELOOP, absl::StatusCode::kInvalidArgument},
                      ErrnoCase{ENAMETOOLONG, absl::StatusCode::kInvalidArgument},
                      ErrnoCase{ETIMEDOUT, absl::StatusCode::kDeadlineExceeded},
                      ErrnoCase{EAGAIN, absl::StatusCode::kUnavailable},
                      ErrnoCase{EINTR, absl::StatusCode::kUnavailable},
                      ErrnoCase{EIO, absl::StatusCode::kInternal},
                      ErrnoCase{EBADF, absl::StatusCode::kInternal}),
    [](const auto& test) { return std::string(ErrnoName(test.param.error_number)); });

TEST(StatusFromErrnoTest, SurvivesAnUnknownErrno) {
  const absl::Status status = StatusFromErrno(54321, "frobnicate");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("54321"));
}

TEST(DescribeErrnoTest, AnErrnoUnknownToTheLibraryIsDescribed) {
  EXPECT_EQ(DescribeErrno(EIO), "EIO (Input/output error)");
  EXPECT_EQ(DescribeErrno(524), "unknown errno 524");
  EXPECT_EQ(DescribeErrno(ECANCELED),
            "ECANCELED (io_uring could start no worker thread; see ulimit -u)");
}

TEST(ErrnoNameTest, IsSymbolic) {
  EXPECT_EQ(ErrnoName(ENOSPC), "ENOSPC");
  EXPECT_EQ(ErrnoName(EIO), "EIO");
}

TEST(AnnotateTest, PutsContextBeforeTheMessageAndKeepsCodeAndPayload) {
  absl::Status cause = absl::DataLossError("checksum differs");
  cause.SetPayload("sluice/test", absl::Cord("payload"));
  const absl::Status status = Annotate(cause, "tensor w1");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ToStd(status.message()), "tensor w1: checksum differs");
  ASSERT_TRUE(status.GetPayload("sluice/test").has_value());
  EXPECT_EQ(*status.GetPayload("sluice/test"), "payload");
}

TEST(AnnotateTest, OkStaysOk) { EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok()); }

absl::Status ReturnIfError(const absl::Status& status, bool* went_on) {
  SLUICE_RETURN_IF_ERROR(status);
  *went_on = true;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfErrorReturnsOnlyErrors) {
  bool went_on = false;
  EXPECT_EQ(ReturnIfError(absl::NotFoundError("x"), &went_on), absl::NotFoundError("x"));
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(ReturnIfError(absl::OkStatus(), &went_on).ok());
  EXPECT_TRUE(went_on);
}

using OwnedInt = std::unique_ptr<int>;

absl::StatusOr<int> SumOf(absl::StatusOr<OwnedInt> a, absl::StatusOr<OwnedInt> b) {
  SLUICE_ASSIGN_OR_RETURN(const OwnedInt first, std::move(a));
  SLUICE_ASSIGN_OR_RETURN(const OwnedInt second, std::move(b));
  return *first + *second;
}

TEST(StatusMacrosTest, AssignOrReturnMovesValuesAndReturnsTheFirstError) {
  EXPECT_EQ(*SumOf(std::make_unique<int>(2), std::make_unique<int>(3)), 5);
  EXPECT_EQ(SumOf(absl::AbortedError("first"), absl::InternalError("second")).status(),
            absl::AbortedError("first"));
}

}  // namespace
}  // namespace sluice::base
