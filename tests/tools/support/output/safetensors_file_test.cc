#include "tools/support/output/safetensors_file.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/safetensors/safetensors_reader.h"
#include "nlohmann/json.hpp"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<TensorSpec> kTensors = {{.name = "a", .shape = {2, 3}},
                                          {.name = "b", .shape = {5}, .dtype = DType::kU8}};

std::vector<std::byte> Filled(std::size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

TEST(SafetensorsFileTest, WritesHeaderThenDataInPieces) {
  const TemporaryDirectory directory;
  auto file = SafetensorsFile::Create(directory / "m.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Begin(kTensors, {{"steps", "7"}}).ok());
  ASSERT_TRUE((*file)->Append("a", 0, Filled(20, 1)).ok());
  ASSERT_TRUE((*file)->Append("a", 20, Filled(4, 2)).ok());
  ASSERT_TRUE((*file)->Append("b", 0, Filled(5, 3)).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_THAT(directory.Names(), ElementsAre("m.safetensors"));

  const std::string content = ReadWhole(directory / "m.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, content.data(), sizeof(header_bytes));
  EXPECT_EQ(header_bytes % 8, 0u);
  const auto header = nlohmann::json::parse(content.substr(8, header_bytes));
  EXPECT_EQ(header["__metadata__"]["steps"], "7");
  EXPECT_EQ(header["a"], nlohmann::json::parse(R"({"dtype":"F32","shape":[2,3],
                                                   "data_offsets":[0,24]})"));
  EXPECT_EQ(header["b"]["data_offsets"], nlohmann::json::parse("[24,29]"));
  EXPECT_EQ(header["b"]["dtype"], "U8");
  EXPECT_EQ(content.substr(8 + header_bytes),
            std::string(20, 1) + std::string(4, 2) + std::string(5, 3));
}

TEST(SafetensorsFileTest, WrongOrderAndMissingBytesAreErrorsAndLeaveNothing) {
  const TemporaryDirectory directory;
  {
    auto file = SafetensorsFile::Create(directory / "m.safetensors");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Begin(kTensors, {}).ok());
    EXPECT_FALSE((*file)->Append("b", 0, Filled(5, 0)).ok());
    EXPECT_FALSE((*file)->Append("a", 4, Filled(4, 0)).ok());
    EXPECT_FALSE((*file)->Append("a", 0, Filled(25, 0)).ok());
    EXPECT_TRUE((*file)->Append("a", 0, Filled(24, 0)).ok());
    EXPECT_EQ((*file)->Commit().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(directory.Names(), IsEmpty());
}

/// Four bytes of a tensor.
std::string FourBytes(const io::SafetensorsReader& file,
                      const std::string& name,
                      std::uint64_t offset) {
  std::string bytes(4, '?');
  const io::SafetensorsEntry* const tensor = file.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return "";
  EXPECT_TRUE(file.Read(*tensor, offset, std::as_writable_bytes(std::span(bytes))).ok());
  return bytes;
}

TEST(SafetensorsFileTest, TheReaderReadsWhatItWrites) {
  const TemporaryDirectory directory;
  auto file = SafetensorsFile::Create(directory / "m.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<TensorSpec> specs = {{.name = "a", .shape = {2}},
                                         {.name = "b", .shape = {5, 1}, .dtype = DType::kU8}};
  const std::string data = "0123456789abc";
  const auto bytes = std::as_bytes(std::span(data));
  ASSERT_TRUE((*file)->Begin(specs, {{"k", "\xc3\xa4"}}).ok());
  ASSERT_TRUE((*file)->Append("a", 0, bytes.first(8)).ok());
  ASSERT_TRUE((*file)->Append("b", 0, bytes.subspan(8)).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  const auto reader = io::SafetensorsReader::Open(directory / "m.safetensors");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().metadata.at("k"), "\xc3\xa4");
  EXPECT_EQ((*reader)->header().tensors[1].shape, specs[1].shape);
  EXPECT_EQ(FourBytes(**reader, "a", 4), "4567");
  EXPECT_EQ(FourBytes(**reader, "b", 1), "9abc");
  EXPECT_EQ((*reader)->Find("c"), nullptr);
}

}  // namespace
}  // namespace sluice::tools
