#include "numa/binding.h"

#include <array>
#include <cstddef>

#include "gtest/gtest.h"

namespace sluice::numa {
namespace {

TEST(BindingTest, EveryMachineHasANode) { EXPECT_GE(CountNodes(), 1); }

TEST(BindingTest, OneNodeNeedsNoBinding) {
  // The kernel would refuse mbind of an address that is not page-aligned.
  std::array<std::byte, 64> memory;
  const BindingResult result = BindToNode({memory.data() + 1, 1}, 0, 1);
  EXPECT_TRUE(result.bound);
  EXPECT_EQ(result.reason, "");
}

TEST(BindingTest, ARefusalNamesNodeAndCause) {
  alignas(4096) static std::array<std::byte, 4096> memory;
  const BindingResult result = BindToNode(memory, 900, 1000);
  EXPECT_FALSE(result.bound);
  EXPECT_EQ(result.reason, "mbind to node 900 refused: EINVAL");
}

}  // namespace
}  // namespace sluice::numa
