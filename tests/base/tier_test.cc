#include "sluice/tier.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(TierTest, NamesComeBackFromParsing) {
  for (const TierKind kind : {TierKind::kHbm, TierKind::kDram, TierKind::kNvme}) {
    for (const int index : {0, 1, 255}) {
      const TierId tier{kind, static_cast<std::uint8_t>(index)};
      const absl::StatusOr<TierId> parsed = ParseTierId(ToString(tier));
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(*parsed, tier);
    }
    EXPECT_EQ(*ParseTierId(ToString(kind)), (TierId{kind, 0}));
  }
  EXPECT_EQ(ToString(kHbm0), "hbm0");
}

TEST(TierTest, RefusesOtherNames) {
  for (const char* text : {"", "hbm256", "hbm-1", "dram1x", "DRAM", "disk", "far", "0"}) {
    EXPECT_EQ(ParseTierId(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace sluice
