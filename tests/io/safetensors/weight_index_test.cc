#include "io/safetensors/weight_index.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string IndexRefusal(const std::string& json) {
  const auto files = ParseWeightIndex(json);
  EXPECT_EQ(files.status().code(), absl::StatusCode::kInvalidArgument) << json.substr(0, 200);
  return std::string(files.status().message());
}

TEST(WeightIndexTest, TellsTheFileOfEachTensorAndPassesOverTheRest) {
  const auto files = ParseWeightIndex(
      R"({"metadata":{"total_size":8,"more":[{"weight_map":{"x":1}},null]},)"
      R"("weight_map":{"b":"2.safetensors","a":"1.safetensors"},"other":[1,2.5,true,"t"]})");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(Pair("a", "1.safetensors"), Pair("b", "2.safetensors")));
  EXPECT_THAT(ParseWeightIndex(R"({"weight_map":{}})").value(), IsEmpty());
}

TEST(WeightIndexTest, AnotherStructureIsRefused) {
  EXPECT_THAT(IndexRefusal(""), HasSubstr("no JSON"));
  EXPECT_THAT(IndexRefusal("[]"), HasSubstr("it must not be a list"));
  EXPECT_THAT(IndexRefusal("{}"), HasSubstr("it has no \"weight_map\""));
  EXPECT_THAT(IndexRefusal(R"({"weight_map":["a"]})"), HasSubstr("\"weight_map\" is a list"));
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"a":1}})"),
              HasSubstr("the file of tensor 'a' is a number"));
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"a":{}}})"), HasSubstr("'a' is an object"));
  EXPECT_THAT(IndexRefusal("{\"x\":" + std::string(1 << 20, '[')), HasSubstr("no JSON"));
}

TEST(WeightIndexTest, DuplicatesAreRefused) {
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{"a":"f","a":"f"}})"), HasSubstr("'a' is there twice"));
  EXPECT_THAT(IndexRefusal(R"({"weight_map":{},"weight_map":{}})"),
              HasSubstr("\"weight_map\" is there twice"));
}

TEST(WeightIndexTest, AFileElsewhereIsRefused) {
  for (const char* const file : {"../f", "/etc/f", "d/f", "..", ".", "", "f\\u0000g"}) {
    EXPECT_THAT(IndexRefusal(std::string(R"({"weight_map":{"a":")") + file + "\"}}"),
                HasSubstr("which is no file of the index's directory"))
        << file;
  }
}

}  // namespace
}  // namespace sluice::io
