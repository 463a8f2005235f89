#include "tools/state/code_table.h"

#include <cmath>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

/// The formula of docs/optimizer-kernels.md, in double.
double ValueOf(int code, double base, int top) {
  if (code == 0) return 0;
  int level = 0;
  while (code >= 1 << (level + 1)) ++level;
  if (level == 0) return std::pow(base, -top);
  const double steps = 1 << level;
  return std::pow(base, level - top) * (1 + (base - 1) * (code - steps + 1) / steps) / base;
}

TEST(CodeTableTest, SignedCodesAreThoseOfTheFormulaWithTheSignInBit7) {
  const CodeTable table = CodeTableOf(optim::Sign::kSigned);
  for (int code = 0; code < 128; ++code) {
    const auto at = static_cast<std::size_t>(code);
    EXPECT_EQ(table[at], ValueOf(code, 8, 6)) << code;
    EXPECT_EQ(table[at + 128], -ValueOf(code, 8, 6)) << code;
  }
  EXPECT_TRUE(std::signbit(table[128]));
}

TEST(CodeTableTest, UnsignedCodesAreThoseOfTheFormula) {
  const CodeTable table = CodeTableOf(optim::Sign::kUnsigned);
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(table[static_cast<std::size_t>(code)], ValueOf(code, 16, 7)) << code;
  }
}

}  // namespace
}  // namespace sluice::tools
