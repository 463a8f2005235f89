#include "io/safetensors/safetensors_reader.h"

#include <chrono>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/safetensors/file_content.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tools::TemporaryDirectory;

std::string Bytes4(const SafetensorsReader& file, const std::string& name, std::uint64_t offset) {
  std::string bytes(4, '?');
  const SafetensorsEntry* const tensor = file.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return "";
  EXPECT_TRUE(file.Read(*tensor, offset, std::as_writable_bytes(std::span(bytes))).ok());
  return bytes;
}

TEST(SafetensorsReaderTest, ReadsAFileWithoutPaddingOrAlignment) {
  const TemporaryDirectory directory;
  for (std::size_t padding = 0; padding < 8; ++padding) {
    FileContent content;
    content.tensors = {{"odd", "U8", {3}, "xyz"}, {"f", "F32", {1}, "wxyz"}};
    content.Write(directory / "m", padding);
    const auto reader = SafetensorsReader::Open(directory / "m");
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(Bytes4(**reader, "f", 0), "wxyz");
  }
}

TEST(SafetensorsReaderTest, AFileOfAnotherFormatIsNamed) {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = directory.Write("bad", bytes);
    const auto reader = SafetensorsReader::Open(path);
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(reader.status().message()), HasSubstr(path));
    return std::string(reader.status().message());
  };
  EXPECT_THAT(refusal(""), HasSubstr("is no safetensors file: it has 0 bytes"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("it has 7 bytes"));
  // Lengths that a reader must not allocate.
  EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"),
              HasSubstr("its header would have 18446744073709551615 bytes, at most 2"));
  EXPECT_THAT(refusal(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("3 bytes, at most 2"));
  EXPECT_THAT(refusal(RawFile("{}", "x")), HasSubstr("its tensors have 0 bytes, and 1 follow"));
  EXPECT_THAT(refusal(RawFile("{\"a\":1}", "")), HasSubstr("'a' must not be a number"));
}

TEST(SafetensorsReaderTest, AHeaderOfMoreThanReadersTakeIsRefusedThoughTheFileHasIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("large", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));
  std::filesystem::resize_file(path, 200'000'000);  // sparse
  const auto reader = SafetensorsReader::Open(path);
  EXPECT_THAT(std::string(reader.status().message()),
              HasSubstr("its header would have 100000001 bytes, at most 100000000"));
}

TEST(SafetensorsReaderTest, AFileThatChangesWhileItIsOpenIsNamed) {
  const TemporaryDirectory directory;
  FileContent content;
  content.tensors = {{"t", "U8", {4}, "wxyz"}};
  content.Write(directory / "m");
  const auto reader = SafetensorsReader::Open(directory / "m");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->CheckUnchanged().ok());
  const auto before = std::filesystem::last_write_time(directory / "m");
  std::filesystem::last_write_time(directory / "m", before + std::chrono::nanoseconds(1000));
  EXPECT_THAT(std::string((*reader)->CheckUnchanged().message()),
              AllOf(HasSubstr(directory / "m"), HasSubstr("has changed since it was opened")));
  std::filesystem::last_write_time(directory / "m", before);
  std::filesystem::resize_file(directory / "m", (*reader)->file_bytes() - 1);
  std::filesystem::last_write_time(directory / "m", before);
  EXPECT_FALSE((*reader)->CheckUnchanged().ok());
}

TEST(SafetensorsReaderTest, OtherKindsOfFilesAreRefused) {
  const TemporaryDirectory directory;
  EXPECT_EQ(SafetensorsReader::Open(directory / "none").status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string& path : {directory.path(), std::string("/dev/null")}) {
    const auto reader = SafetensorsReader::Open(path);
    EXPECT_THAT(std::string(reader.status().message()),
                AllOf(HasSubstr(path), HasSubstr("is no regular file")));
  }
}

}  // namespace
}  // namespace sluice::io
