#include "runtime/device/cuda/cuda_health.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/cuda_under_test.h"

namespace sluice::device {
namespace {

using ::testing::HasSubstr;

TEST(CudaHealthTest, APassingErrorIsNamedAndTheGpuGoesOn) {
  testing::FakeCuda driver;
  CudaHealth health(driver.api());
  const std::pair<CudaCode, absl::StatusCode> passing[] = {
      {kCudaInvalidValue, absl::StatusCode::kInternal},
      {kCudaOutOfMemory, absl::StatusCode::kResourceExhausted},
      {46, absl::StatusCode::kInternal},
      {kCudaInvalidContext, absl::StatusCode::kInternal},
      {kCudaInvalidHandle, absl::StatusCode::kInvalidArgument},
      {401, absl::StatusCode::kInternal},
      {500, absl::StatusCode::kInternal},
      {701, absl::StatusCode::kInternal},
      {720, absl::StatusCode::kInternal},
      {800, absl::StatusCode::kInternal},
      {kCudaNotSupported, absl::StatusCode::kUnimplemented},
      {kCudaCaptureInvalidated, absl::StatusCode::kFailedPrecondition},
      {908, absl::StatusCode::kFailedPrecondition},
      {909, absl::StatusCode::kInternal}};
  for (const auto& [code, wanted] : passing) {
    const absl::Status status = health.Check(code, "cuCall");
    EXPECT_EQ(status.code(), wanted) << code;
    EXPECT_EQ(std::string(status.message()), "cuCall: " + driver.api().ErrorName(code));
    EXPECT_FALSE(health.dead()) << code;
  }
}

TEST(CudaHealthTest, ALastingErrorEndsItAndTheFirstIsNamed) {
  testing::FakeCuda driver;
  for (const CudaCode code : {3,   4,   214, 220, 226, 700, 702, 709, 710, 714,
                              715, 716, 717, 718, 719, 721, 806, 810, 911, 999}) {
    CudaHealth health(driver.api());
    EXPECT_EQ(health.Check(code, "cuFirst").code(), absl::StatusCode::kUnavailable) << code;
    EXPECT_TRUE(health.dead()) << code;
    EXPECT_THAT(std::string(health.Check(719, "cuSecond").message()), HasSubstr("cuFirst"));
  }
}

}  // namespace
}  // namespace sluice::device
