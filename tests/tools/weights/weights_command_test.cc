// The sub-commands of `sluice weights`, on checkpoints of one file and of several.
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/io/safetensors/file_content.h"
#include "tests/tools/support/answer.h"
#include "tests/tools/temporary_directory.h"
#include "tools/weights/weights.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kBlock = 65536;

class WeightsCommandTest : public ::testing::Test {
 protected:
  WeightsCommandTest() {
    io::FileContent first;
    first.tensors = {{"h.0.w", "U8", {3 * kBlock}, std::string(3 * kBlock, 'a')},
                     {"h.1.w", "U8", {kBlock}, std::string(kBlock, 'b')}};
    first.Write(first_);
    io::FileContent second;
    second.tensors = {{"head", "F8_E4M3", {5}, "ccccc"}};
    second.Write(directory_ / "2.safetensors");
    directory_.Write("m.index.json",
                     R"({"weight_map":{"h.0.w":"1.safetensors","h.1.w":"1.safetensors",)"
                     R"("head":"2.safetensors"}})");
  }

  /// Changes one byte, and leaves length and time of the last change.
  void Flip(std::uint64_t offset) const {
    const auto time = std::filesystem::last_write_time(first_);
    std::fstream file(first_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('!');
    file.close();
    std::filesystem::last_write_time(first_, time);
  }

  TemporaryDirectory directory_;
  const std::string first_ = directory_ / "1.safetensors";
};

TEST_F(WeightsCommandTest, ListsTypesAndLayers) {
  const Answered answer = Answer(RunWeightsLs, {directory_.path()});
  ASSERT_EQ(answer.exit_code, 0) << answer.errors;
  EXPECT_THAT(answer.output,
              AllOf(HasSubstr("3 tensors of 256 KiB in 2 files"),
                    HasSubstr("h.*"),
                    HasSubstr("2 layers of 64 KiB to 192 KiB"),
                    HasSubstr("checksums        none"),
                    HasSubstr("too few bytes to measure the disk")));
  EXPECT_THAT(Answer(RunWeightsLs, {first_}).output, HasSubstr(" in 1 file\n"));
  const Answered json = Answer(RunWeightsLs, {directory_.path(), "--json"});
  const auto row = nlohmann::json::parse(json.output);
  EXPECT_EQ(row["types"]["U8"]["bytes"], 4 * kBlock);
  EXPECT_EQ(row["layers"][0]["layers"], 2);
  EXPECT_TRUE(row["read_bytes_per_second"].is_null());
}

TEST_F(WeightsCommandTest, AWholeCheckpointIsSaidToBeWhole) {
  const Answered unsummed = Answer(RunWeightsCheck, {directory_.path()});
  EXPECT_EQ(unsummed.exit_code, 0) << unsummed.errors;
  EXPECT_THAT(unsummed.output, HasSubstr("no checksums to compare with"));
  ASSERT_EQ(Answer(RunWeightsSum, {directory_.path()}).exit_code, 0);
  EXPECT_THAT(directory_.Names(),
              ElementsAre("1.safetensors", "2.safetensors", "m.index.json", "m.index.json.sums"));
  const Answered summed = Answer(RunWeightsCheck, {directory_.path()});
  EXPECT_EQ(summed.exit_code, 0) << summed.errors;
  EXPECT_THAT(summed.output, HasSubstr("every checksum is as it was"));
}

TEST_F(WeightsCommandTest, AChangedByteIsNamedByItsTensors) {
  ASSERT_EQ(Answer(RunWeightsSum, {directory_.path()}).exit_code, 0);
  Flip(std::filesystem::file_size(first_) - 1);
  const Answered last = Answer(RunWeightsCheck, {directory_.path()});
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_THAT(last.output,
              AllOf(HasSubstr("1.safetensors differs in bytes 262144 to "),
                    HasSubstr(": 'h.1.w'\n"),
                    Not(HasSubstr("'h.0.w'"))));
  Flip(2 * kBlock);
  const Answered both = Answer(RunWeightsCheck, {directory_.path()});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.output, HasSubstr("differs in bytes 131072 to 196608: 'h.0.w'"));
}

TEST_F(WeightsCommandTest, SumsAreKeptWhereTheUserSays) {
  const std::string sums = directory_ / "elsewhere";
  ASSERT_EQ(Answer(RunWeightsSum, {first_, "--sums", sums}).exit_code, 0);
  EXPECT_EQ(Answer(RunWeightsCheck, {first_, "--sums", sums}).exit_code, 0);
  // The checksums of another checkpoint.
  const Answered other = Answer(RunWeightsCheck, {directory_.path(), "--sums", sums});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.output, HasSubstr("2.safetensors has no checksums"));
  const Answered none = Answer(RunWeightsCheck, {first_, "--sums", first_});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("has no checksums that are known here"));
  const Answered over = Answer(RunWeightsSum, {first_, "--sums", first_});
  EXPECT_EQ(over.exit_code, 2);
  EXPECT_EQ(Answer(RunWeightsCheck, {first_, "--sums", sums}).exit_code, 0);
}

TEST_F(WeightsCommandTest, BadInputIsNamed) {
  const Answered missing = Answer(RunWeightsLs, {});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("PATH is missing"));
  const Answered none = Answer(RunWeightsLs, {directory_ / "none"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("none does not exist"));
  std::filesystem::remove(directory_ / "2.safetensors");
  const Answered shard = Answer(RunWeightsCheck, {directory_.path()});
  EXPECT_EQ(shard.exit_code, 2);
  EXPECT_THAT(shard.errors, HasSubstr("2.safetensors does not exist"));
  std::filesystem::resize_file(first_, 100);
  const Answered cut = Answer(RunWeightsCheck, {first_});
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_THAT(cut.errors, HasSubstr("1.safetensors"));
}

}  // namespace
}  // namespace sluice::tools
