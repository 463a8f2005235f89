#include "io/safetensors/weight_files.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/safetensors/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::io {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tools::TemporaryDirectory;

using testing::IsStatus;

/// A checkpoint in two files, and one tensor that the index does not name.
class WeightFilesTest : public ::testing::Test {
 protected:
  WeightFilesTest() {
    FileContent first;
    first.tensors = {{"a", "F32", {1}, "aaaa"}, {"b", "U8", {3}, "bbb"}};
    first.Write(directory_ / "m-1.safetensors");
    FileContent second;
    second.tensors = {{"c", "F8_E4M3", {2}, "cc"}, {"extra", "U8", {1}, "x"}};
    second.Write(directory_ / "m-2.safetensors");
    WriteIndex(R"("a":"m-1.safetensors","c":"m-2.safetensors","b":"m-1.safetensors")");
  }

  void WriteIndex(const std::string& map) const {
    directory_.Write("m.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  }

  TemporaryDirectory directory_;
};

TEST_F(WeightFilesTest, ADirectoryIsReadByItsIndex) {
  for (const std::string& path : {directory_.path(), directory_ / "m.safetensors.index.json"}) {
    const auto weights = WeightFiles::Open(path);
    ASSERT_TRUE(weights.ok()) << weights.status();
    std::vector<std::string> names;
    for (const WeightTensor& tensor : (*weights)->tensors()) names.push_back(tensor.entry->name);
    EXPECT_THAT(names, ElementsAre("a", "b", "c"));
    EXPECT_THAT((*weights)->unnamed(), ElementsAre("extra"));
    const WeightTensor* const c = (*weights)->Find("c");
    ASSERT_NE(c, nullptr);
    std::string bytes(2, '?');
    EXPECT_TRUE((*weights)
                    ->files()[c->file]
                    ->Read(*c->entry, 0, std::as_writable_bytes(std::span(bytes)))
                    .ok());
    EXPECT_EQ(bytes, "cc");
    EXPECT_EQ((*weights)->Find("extra"), nullptr);
    EXPECT_EQ((*weights)->file_bytes(),
              std::filesystem::file_size(directory_ / "m-1.safetensors") +
                  std::filesystem::file_size(directory_ / "m-2.safetensors"));
  }
}

TEST_F(WeightFilesTest, OneFileNeedsNoIndex) {
  std::filesystem::remove(directory_ / "m.safetensors.index.json");
  EXPECT_THAT(WeightFiles::Open(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "has 2 names that end in .safetensors"));
  std::filesystem::remove(directory_ / "m-1.safetensors");
  for (const std::string& path : {directory_.path(), directory_ / "m-2.safetensors"}) {
    const auto weights = WeightFiles::Open(path);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ((*weights)->path(), directory_ / "m-2.safetensors");
    EXPECT_EQ((*weights)->tensors().size(), 2u);
    EXPECT_THAT((*weights)->unnamed(), IsEmpty());
  }
  std::filesystem::remove(directory_ / "m-2.safetensors");
  EXPECT_THAT(WeightFiles::Open(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "has no safetensors file and no index"));
  EXPECT_THAT(WeightFiles::Open(directory_ / "none"),
              IsStatus(absl::StatusCode::kNotFound, "does not exist"));
}

TEST_F(WeightFilesTest, TensorsThatTheIndexNamesMustExist) {
  WriteIndex(R"("a":"m-1.safetensors","gone":"m-2.safetensors")");
  EXPECT_THAT(WeightFiles::Open(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "tensor 'gone' is not in 'm-2.safetensors', where the index has it"));
  WriteIndex(R"("a":"m-3.safetensors")");
  const auto missing = WeightFiles::Open(directory_.path());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr("m.safetensors.index.json"), HasSubstr("m-3.safetensors does not")));
  WriteIndex(R"("a":"../m-1.safetensors")");
  EXPECT_THAT(WeightFiles::Open(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "no file of the index's directory"));
}

TEST_F(WeightFilesTest, AnIndexThatNobodyWouldWriteIsRefused) {
  std::filesystem::resize_file(directory_ / "m.safetensors.index.json", 100'000'001);
  EXPECT_THAT(WeightFiles::Open(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "an index has at most 100000000"));
}

TEST_F(WeightFilesTest, AFileThatIsReplacedIsNamed) {
  const auto weights = WeightFiles::Open(directory_.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE((*weights)->CheckUnchanged().ok());
  // Another file of the same bytes and times under the name of one that is open.
  const std::string path = directory_ / "m-1.safetensors";
  std::filesystem::copy_file(path, directory_ / "new");
  std::filesystem::last_write_time(directory_ / "new", std::filesystem::last_write_time(path));
  std::filesystem::rename(directory_ / "new", path);
  EXPECT_THAT((*weights)->CheckUnchanged(),
              IsStatus(absl::StatusCode::kFailedPrecondition, "m-1.safetensors has changed"));
}

TEST_F(WeightFilesTest, AFileThatIsCutIsNamed) {
  const auto weights = WeightFiles::Open(directory_.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  std::filesystem::resize_file(directory_ / "m-2.safetensors", 20);
  EXPECT_THAT((*weights)->CheckUnchanged(),
              IsStatus(absl::StatusCode::kFailedPrecondition, "m-2.safetensors has changed"));
}

}  // namespace
}  // namespace sluice::io
