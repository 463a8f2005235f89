#include "bench/device/gemm_loop.h"

#include "gtest/gtest.h"
#include "tests/support/temp_directory.h"

namespace sluice::bench {
namespace {

TEST(GemmLoopTest, ProductsRunUntilTheStop) {
  RuntimeOptions options;
  auto loop = GemmLoop::Start(options);
  ASSERT_TRUE(loop.ok()) << loop.status();
  const absl::StatusOr<std::uint64_t> products = (*loop)->Stop();
  ASSERT_TRUE(products.ok()) << products.status();
  const absl::StatusOr<std::uint64_t> again = (*loop)->Stop();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *products) << "the loop has ended";
}

TEST(GemmLoopTest, AGpuThatIsNotThereIsAnError) {
  // An empty list hides the GPU of a machine that has one.
  const testing::ScopedEnvironment none("CUDA_VISIBLE_DEVICES", "");
  EXPECT_FALSE(GemmLoop::Start({.device = DeviceKind::kCuda}).ok());
}

}  // namespace
}  // namespace sluice::bench
