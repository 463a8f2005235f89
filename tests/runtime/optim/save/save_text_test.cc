// The text of a save is read whole, or refused with the reason.
#include "runtime/optim/save/save_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "nlohmann/json.hpp"
#include "runtime/optim/optimizer/layout.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using Json = nlohmann::json;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::kSlowdown;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

SaveText TwoGroups() {
  return {.layout = "{}",
          .step = 7,
          .note = "of \"mine\"\n",
          .rates = {GroupRates{}, GroupRates{.learning_rate = 0.1 + 0.2, .beta1 = 0}},
          .hashes = {1, std::numeric_limits<std::uint64_t>::max()}};
}

/// Status of parsing the text with one key replaced.
absl::Status ParsedWith(const char* key, const Json& value) {
  Json text = Json::parse(WriteSaveText(TwoGroups()));
  text[key] = value;
  return ParseSaveText(text.dump()).status();
}

std::string Nested(int depth) {
  const auto brackets = static_cast<std::size_t>(depth);
  return std::string(brackets, '[') + std::string(brackets, ']');
}

TEST(SaveTextTest, WrittenTextIsReadBack) {
  const absl::StatusOr<SaveText> save = ParseSaveText(WriteSaveText(TwoGroups()));
  ASSERT_TRUE(save.ok()) << save.status();
  EXPECT_EQ(save->layout, "{}");
  EXPECT_EQ(save->step, 7);
  EXPECT_EQ(save->note, "of \"mine\"\n");
  EXPECT_EQ(save->hashes, TwoGroups().hashes);
  ASSERT_EQ(save->rates.size(), 2U);
  EXPECT_EQ(save->rates[1].learning_rate, 0.1 + 0.2);
  EXPECT_EQ(save->rates[1].beta1, 0);
  EXPECT_EQ(save->rates[1].beta2, GroupRates{}.beta2);
}

TEST(SaveTextTest, BrokenTextIsRefused) {
  constexpr char kWords[] = "its description is not that of a save";
  for (const char* text : {"", "{", "[]", "{}", "null", "\xff"}) {
    EXPECT_THAT(ParseSaveText(text), IsStatus(kDataLoss, kWords)) << text;
  }
  for (const char* key : {"layout", "step", "rates", "hashes", "note"}) {
    EXPECT_THAT(ParsedWith(key, nullptr), IsStatus(kDataLoss, kWords)) << key;
  }
  EXPECT_THAT(ParsedWith("step", -1), IsStatus(kDataLoss, kWords));
  EXPECT_THAT(ParsedWith("step", std::uint64_t{1} << 63), IsStatus(kDataLoss, kWords));
  EXPECT_THAT(ParsedWith("step", std::numeric_limits<std::int64_t>::max()),
              IsStatus(kDataLoss, kWords));
}

TEST(SaveTextTest, RatesThatNoGroupMayHaveAreRefused) {
  EXPECT_THAT(ParsedWith("rates", {{1, 2, 3, 4}}), IsStatus(kDataLoss, "not five numbers"));
  EXPECT_THAT(ParsedWith("rates", {{1, 0, 0, 0, "0"}}), IsStatus(kDataLoss, "not five numbers"));
  EXPECT_THAT(ParsedWith("rates", {{1, 1, 0, 0, 0}}), IsStatus(kDataLoss, "none may have"));
  EXPECT_THAT(ParsedWith("rates", {{-1, 0, 0, 0, 0}}), IsStatus(kDataLoss, "none may have"));
}

TEST(SaveTextTest, StepsOfParametersAreReadOrRefusedByTheOneThatIsWrong) {
  SaveText two = TwoGroups();
  two.steps = {7, 0};
  const absl::StatusOr<SaveText> save = ParseSaveText(WriteSaveText(two));
  ASSERT_TRUE(save.ok()) << save.status();
  EXPECT_EQ(StepsOf(*save, 2).value(), (std::vector<std::int64_t>{7, 0}));
  EXPECT_THAT(StepsOf(*save, 1), IsStatus(kDataLoss, "steps of 2 parameters, of 1"));
  EXPECT_THAT(ParsedWith("steps", {7, 8}), IsOk()) << "a state from elsewhere brings its steps";
  EXPECT_THAT(ParsedWith("steps", {7, std::numeric_limits<std::uint64_t>::max()}),
              IsStatus(kDataLoss, "parameter 1 has made 18446744073709551615 steps"));
  for (const Json& wrong : {Json(-1), Json(0.5), Json("1"), Json(nullptr)}) {
    EXPECT_THAT(ParsedWith("steps", {7, wrong}),
                IsStatus(kDataLoss, "the steps of parameter 1 are no number"));
  }
  for (const Json& wrong : {Json(7), Json(nullptr), Json::object()}) {
    EXPECT_THAT(ParsedWith("steps", wrong),
                IsStatus(kDataLoss, "the steps of its parameters are no list"));
  }
}

/// Version 0.1.0 wrote this text before parameters counted their own steps.
TEST(SaveTextTest, TheStepOfAnOldSaveIsThatOfEveryParameter) {
  constexpr char kOld[] =
      R"({"hashes":[5,6],"layout":"{}","note":"","rates":[[0.001,0.9,0.999,1e-08,0.0]],"step":9})";
  const absl::StatusOr<SaveText> save = ParseSaveText(kOld);
  ASSERT_TRUE(save.ok()) << save.status();
  EXPECT_EQ(StepsOf(*save, 3).value(), (std::vector<std::int64_t>{9, 9, 9}));
  EXPECT_EQ(WriteSaveText(*save), kOld);
  Json none = Json::parse(kOld);
  none["steps"] = Json::array();
  EXPECT_THAT(StepsOf(ParseSaveText(none.dump()).value(), 3),
              IsStatus(kDataLoss, "steps of 0 parameters, of 3"));
}

TEST(SaveTextTest, ShapesOfParametersAreReadOrRefusedByTheOneThatIsWrong) {
  SaveText two = TwoGroups();
  two.shapes = {{2, 3}, {}, {4}};
  const std::vector<std::uint64_t> counts = {6, 1, 4};
  const absl::StatusOr<SaveText> save = ParseSaveText(WriteSaveText(two));
  ASSERT_TRUE(save.ok()) << save.status();
  EXPECT_EQ(ShapesOf(*save, counts).value(), two.shapes);
  EXPECT_THAT(ShapesOf(*save, std::vector<std::uint64_t>{6, 1}),
              IsStatus(kDataLoss, "shapes of 3 parameters, of 2"));
  for (const std::uint64_t wrong : {5U, 7U, 12U, 0U}) {
    EXPECT_THAT(ShapesOf(*save, std::vector<std::uint64_t>{6, 1, wrong}),
                IsStatus(kDataLoss, "the shape of parameter 2 is not one of"));
  }
  EXPECT_FALSE(HasElements({std::int64_t{1} << 40, std::int64_t{1} << 40}, 1 << 16));
  EXPECT_FALSE(HasElements({0, 4}, 0));
  for (const Json& wrong : {Json(-1), Json(0.5), Json("1"), Json(nullptr), Json::array()}) {
    EXPECT_THAT(ParsedWith("shapes", {{1}, {wrong}}),
                IsStatus(kDataLoss, "the shape of parameter 1 is none"));
  }
  EXPECT_THAT(ParsedWith("shapes", {{1}, 7}),
              IsStatus(kDataLoss, "the shape of parameter 1 is none"));
  EXPECT_THAT(ParsedWith("shapes", 7), IsStatus(kDataLoss, "its parameters are no list"));
}

TEST(SaveTextTest, FlatParametersHaveNoShapesInTheText) {
  SaveText flat = TwoGroups();
  flat.shapes = {{6}, {1}};
  EXPECT_EQ(WriteSaveText(flat), WriteSaveText(TwoGroups()));
  const std::vector<std::uint64_t> counts = {6, 1};
  EXPECT_EQ(ShapesOf(TwoGroups(), counts).value(), flat.shapes);
}

TEST(SaveTextTest, ChecksumsAreNumbers) {
  EXPECT_THAT(ParsedWith("hashes", {1, -1}), IsStatus(kDataLoss, "a checksum is no number"));
  EXPECT_THAT(ParsedWith("hashes", {1, "1"}), IsStatus(kDataLoss, "a checksum is no number"));
}

TEST(SaveTextTest, RecordsLieOneAfterAnotherBeforeTheEnd) {
  const std::vector<std::uint64_t> hashes = {5, 6, 7}, sizes = {10, 0, 4};
  const auto records = PlaceRecords(hashes, sizes, 30);
  ASSERT_TRUE(records.ok()) << records.status();
  const std::vector<std::uint64_t> offsets = {16, 26, 26};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*records)[i].offset, offsets[i]);
    EXPECT_EQ((*records)[i].bytes, sizes[i]);
    EXPECT_EQ((*records)[i].hash, hashes[i]);
  }
  EXPECT_THAT(PlaceRecords(hashes, sizes, 13), IsStatus(kDataLoss, "the sizes of the tensors"));
  EXPECT_THAT(PlaceRecords(std::span(hashes).first(2), sizes, 30),
              IsStatus(kDataLoss, "as many checksums as tensors"));
}

// Comparing and printing it would recurse until the stack is used up.
TEST(SaveTextTest, EndlessNestingIsRefused) {
  constexpr int kDeep = 1'000'000 / kSlowdown;
  EXPECT_THAT(ParseSaveText(Nested(kDeep)), IsStatus(kDataLoss, "not that of a save"));
  const std::string layout = "{\"optimizer\":" + Nested(kDeep) + "}";
  EXPECT_EQ(LayoutDifference(layout, "{\"optimizer\":\"lion\"}"),
            "its kind is nothing in the save and \"lion\" here");
}

}  // namespace
}  // namespace sluice::optim
