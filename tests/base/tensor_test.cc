#include "sluice/tensor.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(TensorTest, SizeIsElementsTimesElementSize) {
  EXPECT_EQ(SizeOf({.name = "scalar"}), Bytes(4));
  EXPECT_EQ(SizeOf({.name = "matrix", .shape = {3, 5}, .dtype = DType::kBF16}), Bytes(30));
  EXPECT_EQ(SizeOf({.name = "large", .shape = {1 << 20, 1 << 14}, .dtype = DType::kI64}),
            Bytes(std::uint64_t{1} << 37));
}

TEST(TensorTest, EveryDTypeHasNameAndSize) {
  EXPECT_EQ(ToString(DType::kF32), "f32");
  EXPECT_EQ(ToString(DType::kI64), "i64");
  EXPECT_EQ(SizeOf(DType::kF32), 4u);
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kI8), 1u);
  EXPECT_EQ(SizeOf(DType::kU8), 1u);
  EXPECT_EQ(SizeOf(DType::kI32), 4u);
  EXPECT_EQ(SizeOf(DType::kI64), 8u);
}

TEST(TensorTest, KindsAndModesHaveNames) {
  EXPECT_EQ(ToString(TensorKind::kParameter), "parameter");
  EXPECT_EQ(ToString(TensorKind::kOther), "other");
  EXPECT_EQ(ToString(AccessMode::kRead), "read");
  EXPECT_EQ(ToString(AccessMode::kOverwrite), "overwrite");
  EXPECT_EQ(ToString(OffLease::kNone), "none");
  EXPECT_EQ(ToString(OffLease::kReadable), "readable");
}

}  // namespace
}  // namespace sluice
