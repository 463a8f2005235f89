#include "sluice/units.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(UnitsTest, PrintsBinaryUnitsWithAtMostTwoDecimals) {
  EXPECT_EQ(ToString(Bytes(0)), "0 B");
  EXPECT_EQ(ToString(Bytes(1023)), "1023 B");
  EXPECT_EQ(ToString(256_KiB), "256 KiB");
  EXPECT_EQ(ToString(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(ToString(1_GiB + 250_MiB), "1.24 GiB");
  EXPECT_EQ(ToString(Bytes(std::uint64_t{3} << 40)), "3 TiB");
}

TEST(UnitsTest, ParsesNumbersWithAndWithoutUnit) {
  EXPECT_EQ(*ParseBytes("4096"), Bytes(4096));
  EXPECT_EQ(*ParseBytes("0"), Bytes(0));
  EXPECT_EQ(*ParseBytes("12B"), Bytes(12));
  EXPECT_EQ(*ParseBytes("256KiB"), 256_KiB);
  EXPECT_EQ(*ParseBytes(" 1.5 GiB "), 1_GiB + 512_MiB);
  EXPECT_EQ(*ParseBytes("2TiB"), 1_GiB * 2048);
  EXPECT_EQ(*ParseBytes("18446744073709551615"), Bytes(UINT64_MAX));
}

TEST(UnitsTest, ParsedTextOfWholeUnitsComesBack) {
  for (const Bytes bytes : {Bytes(0), Bytes(1), Bytes(1023), 1_KiB, 96_MiB, 7_GiB}) {
    EXPECT_EQ(*ParseBytes(ToString(bytes)), bytes);
  }
}

TEST(UnitsTest, RefusesWhatIsNotASizeAndQuotesIt) {
  for (const char* text : {"",
                           " ",
                           "MiB",
                           "-1",
                           "1e3",
                           "1.5.2MiB",
                           "256MB",
                           "1 kib",
                           "0x10",
                           "nan",
                           "18446744073709551616",
                           "17179869184GiB",
                           "99999999999.5TiB"}) {
    const absl::StatusOr<Bytes> parsed = ParseBytes(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find(text), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace sluice
