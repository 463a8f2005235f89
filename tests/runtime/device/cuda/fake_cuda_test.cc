#include "tests/support/cuda/fake_cuda.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/gpu_session.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

FakeCudaOptions SmallFrames() {
  FakeCudaOptions options;
  options.facts.granularity = 64 << 10;
  options.facts.memory_bytes = 16 << 20;
  return options;
}

TEST(FakeCudaTest, BytesGoInAndOut) {
  FakeCuda fake(SmallFrames());
  {
    GpuSession gpu(fake);
    device::CudaStream stream = gpu.Stream();
    std::byte* address = gpu.Mapped();
    gpu.CopyIn(address, gpu.Pinned(7), stream);
    CUDA_OK(fake.LaunchAdd({address, gpu.frame_bytes()}, 3, stream));
    gpu.Finish(stream);
    EXPECT_THAT(gpu.Ends(address), ElementsAre(10, 10));
    EXPECT_EQ(fake.bytes_in(), gpu.frame_bytes());
    EXPECT_EQ(fake.bytes_out(), gpu.frame_bytes());
    EXPECT_EQ(fake.blocking_copies(), 0u);
    EXPECT_THAT(fake.Leaks(), ::testing::Not(IsEmpty()));
  }
  EXPECT_THAT(fake.Leaks(), IsEmpty());
}

}  // namespace
}  // namespace sluice::testing
