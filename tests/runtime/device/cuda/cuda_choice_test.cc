#include <functional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/runtime/device/cuda/cuda_under_test.h"

namespace sluice::device {
namespace {

using ::testing::AllOf;
using testing::FakeCuda;
using ::testing::HasSubstr;

testing::FakeCudaOptions ThreeGpus() {
  testing::FakeCudaOptions options = SmallPages();
  options.devices = 3;
  return options;
}

TEST(ChooseGpuTest, TakesTheFirstAnOrdinalOrTheBeginningOfAUuid) {
  FakeCuda fake(ThreeGpus());
  EXPECT_EQ(ChooseGpu(fake.api(), "").value(), 0);
  EXPECT_EQ(ChooseGpu(fake.api(), "2").value(), 2);
  CudaDeviceFacts facts;
  ASSERT_EQ(fake.api().DescribeDevice(1, &facts), kCudaSuccess);
  EXPECT_EQ(facts.uuid.back(), 1) << "the last byte tells the fake's GPUs apart";
  EXPECT_EQ(ChooseGpu(fake.api(), "GPU-00000000-0000-0000-0000-000000000001").value(), 1);
  EXPECT_EQ(ChooseGpu(fake.api(), "MIG-00000000-0000-0000-0000-000000000002").value(), 2);
  EXPECT_EQ(ChooseGpu(fake.api(), "GPU-0000").value(), 0) << "the first that fits";
}

TEST(ChooseGpuTest, NamesTheGpusThatThereAre) {
  FakeCuda fake(ThreeGpus());
  for (const char* name : {"3", "-1", "GPU-f", "GPU-", "h200"}) {
    const auto chosen = ChooseGpu(fake.api(), name);
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(std::string(chosen.status().message()),
                AllOf(HasSubstr(name), HasSubstr("2 (Fake GPU, GPU-00000000-")))
        << name;
  }
}

TEST(ChooseGpuTest, SaysThatNoGpuIsVisible) {
  testing::FakeCudaOptions none = SmallPages();
  none.devices = 0;
  for (const CudaCode code : {kCudaSuccess, kCudaNoDevice}) {
    none.count_code = code;
    FakeCuda fake(none);
    const auto chosen = ChooseGpu(fake.api(), "");
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

TEST(WhyNotUsableTest, NamesWhatTheGpuLacks) {
  const CudaDeviceFacts good = testing::FakeCudaOptions().facts;
  EXPECT_EQ(WhyNotUsable(good, 2 << 20), "");
  EXPECT_EQ(WhyNotUsable(good, 16 << 20), "");
  using Change = std::function<void(CudaDeviceFacts&)>;
  const std::pair<Change, std::string> lacks[] = {
      {[](auto& facts) { facts.driver_version = 12080; }, "the driver knows CUDA 12.8"},
      {[](auto& facts) { facts.compute_major = 7; }, "compute capability 7.0"},
      {[](auto& facts) { facts.maps_memory = false; }, "cannot map memory"},
      {[](auto& facts) { facts.registers_memory = false; }, "cannot register host memory"}};
  for (const auto& [change, text] : lacks) {
    CudaDeviceFacts facts = good;
    change(facts);
    EXPECT_THAT(WhyNotUsable(facts, 2 << 20), HasSubstr(text));
    FakeCuda fake({.facts = facts});
    const auto device = MakeCudaDevice(fake.api(), {.page_bytes = 2 << 20, .frames = 1});
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition) << text;
  }
}

}  // namespace
}  // namespace sluice::device
