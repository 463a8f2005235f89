#include "io/safetensors/safetensors_header.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Tensor(const std::string& name, const std::string& fields) {
  return "\"" + name + "\":{" + fields + "}";
}

constexpr const char* kA = R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]})";

/// Message about a header before 8 bytes of data.
std::string Refusal(const std::string& json) {
  const auto header = ParseSafetensorsHeader(json, 8);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << json.substr(0, 200);
  return std::string(header.status().message());
}

TEST(SafetensorsHeaderTest, ReadsAnyOrderOfKeysAndTensorsInTheOrderOfTheirBytes) {
  const auto header = ParseSafetensorsHeader(
      "{" + Tensor("b", R"("data_offsets":[6,6],"shape":[0,3],"dtype":"BF16")") + "," +
          Tensor("c", R"("shape":[],"dtype":"BF16","data_offsets":[6,8])") + "," +
          R"("__metadata__":{"k":"v","l":""},)" +
          Tensor("a", R"("dtype":"U8","shape":[2,3],"data_offsets":[0,6])") + "}   ",
      8);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(header->tensors[0].type->dtype, DType::kU8);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[2].name, "c");
  EXPECT_THAT(header->tensors[2].shape, IsEmpty());
  EXPECT_EQ(header->tensors[2].offset, 6u);
  EXPECT_EQ(header->tensors[2].bytes, 2u);
  EXPECT_THAT(header->metadata, ElementsAre(std::pair("k", "v"), std::pair("l", "")));
}

TEST(SafetensorsHeaderTest, AnotherStructureIsRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("{"), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal(std::string("{") + kA + "}}"), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("{\"\xff\":{}}"), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("its header must not be a list"));
  EXPECT_THAT(Refusal(R"({"a":7})"), HasSubstr("'a' must not be a number"));
  EXPECT_THAT(Refusal(R"({"a":{"shape":[[1]]}})"), HasSubstr("'shape' of 'a' must not be a list"));
  EXPECT_THAT(Refusal(R"({"a":{"shape":[-1]}})"), HasSubstr("must not be a negative number"));
  EXPECT_THAT(Refusal(R"({"a":{"shape":[18446744073709551616]}})"), HasSubstr("a fraction"));
  EXPECT_THAT(Refusal(R"({"a":{"shape":"2"}})"), HasSubstr("'shape' of 'a' must not be a text"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":[1]}})"), HasSubstr("'dtype' of 'a' must not be a list"));
  EXPECT_THAT(Refusal(R"({"a":{"stride":[1]}})"),
              HasSubstr("tensor 'a' has an unknown field 'stride'"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"k":1}})"),
              HasSubstr("'k' of '__metadata__' must not be a number"));
  EXPECT_THAT(Refusal("{" + std::string(1 << 20, '[')), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("{\"a\":" + std::string(1 << 20, '[')), HasSubstr("'a' must not be a list"));
  std::string many = R"({"a":{"shape":[1)";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_THAT(Refusal(many), HasSubstr("has more than 64 numbers"));
}

TEST(SafetensorsHeaderTest, DuplicatesAreRefused) {
  const std::string a = kA;
  EXPECT_THAT(Refusal("{" + a + "," + a + "}"), HasSubstr("'a' is there twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{},"__metadata__":{}})"),
              HasSubstr("'__metadata__' is there twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"k":"1","k":"2"}})"),
              HasSubstr("'k' of '__metadata__' is there twice"));
  for (const char* const field : {R"("dtype":"F32")", R"("shape":[1])", R"("data_offsets":[0])"}) {
    const std::string twice = std::string(field) + "," + field;
    EXPECT_THAT(Refusal("{" + Tensor("a", twice) + "}"), HasSubstr("of 'a' is there twice"));
  }
}

TEST(SafetensorsHeaderTest, MissingFieldsAndUnknownTypesAreNamed) {
  EXPECT_THAT(Refusal(R"({"a":{}})"), HasSubstr("tensor 'a' has no \"dtype\""));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32"}})"), HasSubstr("tensor 'a' has no \"shape\""));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[2]}})"),
              HasSubstr("tensor 'a' has no \"data_offsets\""));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F65","shape":[1],"data_offsets":[0,8]}})"),
              HasSubstr("tensor 'a' has the dtype 'F65'; known are BOOL, F4, F6_E2M3, "));
}

TEST(SafetensorsHeaderTest, EachTypeOfTheFormatHasItsBits) {
  const std::pair<const char*, std::uint64_t> kBits[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [name, bits] : kBits) {
    const std::string bytes = std::to_string(bits);
    const auto header = ParseSafetensorsHeader(
        "{" +
            Tensor("a",
                   "\"dtype\":\"" + std::string(name) + R"(","shape":[2,4],"data_offsets":[0,)" +
                       bytes + "]") +
            "}",
        bits);
    ASSERT_TRUE(header.ok()) << name << ": " << header.status();
    EXPECT_EQ(header->tensors[0].bytes, bits) << name;
    EXPECT_EQ(header->tensors[0].count(), 8u) << name;
  }
}

TEST(SafetensorsHeaderTest, PackedElementsFillWholeBytes) {
  const auto of = [](const std::string& type, const std::string& shape, int bytes) {
    return "{" +
           Tensor("a",
                  "\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                      std::to_string(bytes) + "]") +
           "}";
  };
  ASSERT_TRUE(ParseSafetensorsHeader(of("F6_E2M3", "[12]", 9), 9).ok());
  ASSERT_TRUE(ParseSafetensorsHeader(of("F4", "[2]", 1), 1).ok());
  EXPECT_THAT(Refusal(of("F4", "[3]", 2)),
              HasSubstr("tensor 'a' has 3 elements of 4 bits, which fill no whole bytes"));
  EXPECT_THAT(Refusal(of("F6_E3M2", "[2]", 2)), HasSubstr("2 elements of 6 bits"));
}

TEST(SafetensorsHeaderTest, OffsetsAgreeWithShapesAndTheFile) {
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return "{" +
           Tensor("a", R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets) + "}";
  };
  ASSERT_TRUE(ParseSafetensorsHeader(one("[2]", "[0,8]"), 8).ok());
  EXPECT_THAT(Refusal(one("[2]", "[0,8,8]")), HasSubstr("has 3 data_offsets, of 2"));
  EXPECT_THAT(Refusal(one("[2]", "[8,0]")), HasSubstr("has data_offsets 8 to 0, of 8 bytes"));
  EXPECT_THAT(Refusal(one("[4]", "[0,16]")), HasSubstr("the file is cut short or damaged"));
  EXPECT_THAT(Refusal(one("[3]", "[0,8]")),
              HasSubstr("tensor 'a' has 8 bytes by its data_offsets and 12 by its shape"));
  // 2^62 elements of 4 bytes would be 0 bytes in 64 bits.
  EXPECT_THAT(Refusal(one("[4611686018427387904]", "[0,0]")), HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(Refusal(one("[4294967296,4294967296,4]", "[0,0]")), HasSubstr("more than 2^63"));
  EXPECT_THAT(Refusal(one("[18446744073709551615]", "[0,0]")), HasSubstr("more than 2^63"));
  EXPECT_THAT(Refusal(one("[1]", "[0,4]")),
              HasSubstr("its tensors have 4 bytes, and 8 follow its header"));
}

TEST(SafetensorsHeaderTest, TensorsNeitherOverlapNorLeaveGaps) {
  const auto second = [](const std::string& offsets) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)") +
           R"("b":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}";
  };
  ASSERT_TRUE(ParseSafetensorsHeader(second("[4,8]"), 8).ok());
  EXPECT_THAT(Refusal(second("[3,7]")),
              HasSubstr("tensor 'b' begins at byte 3, and 4 comes next: tensors overlap or leave a "
                        "gap"));
  EXPECT_FALSE(ParseSafetensorsHeader(second("[5,9]"), 9).ok());
  EXPECT_FALSE(ParseSafetensorsHeader(second("[0,4]"), 4).ok());
}

TEST(SafetensorsHeaderTest, AHostileNameFillsNoScreen) {
  const std::string message = Refusal("{\"" + std::string(1 << 20, 'n') + "\\u001b\":7}");
  EXPECT_LT(message.size(), 200u);
  EXPECT_THAT(Refusal(R"({"\u001b[2J":7})"), HasSubstr("'?[2J' must not be"));
}

}  // namespace
}  // namespace sluice::io
