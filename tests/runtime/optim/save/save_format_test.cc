// The file of a save. Its checksums do not depend on its division into parts. Saves of the older
// format are loaded, and a whole save is verified without an optimizer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/save/block_sum.h"
#include "runtime/optim/save/saved_tensors.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/runtime/optim/save_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::TempDirectory;

constexpr auto kDamaged = absl::StatusCode::kDataLoss;
constexpr std::uint64_t kFormatSeed = 20'261'128;
constexpr std::uint64_t kBlock = 16;

std::uint64_t SumOfWhole(std::vector<std::byte> bytes) {
  const std::span<std::byte> whole(bytes);
  return SumOfBlocks(kBlock, 0, std::span(&whole, 1));
}

std::vector<std::byte> RandomBytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(BlockSumTest, PartsAndPiecesOfAnyKindHaveTheSumOfTheWhole) {
  std::mt19937_64 random(kFormatSeed);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    std::vector<std::byte> bytes = RandomBytes(random, 1 + random() % 300);
    std::uint64_t sum = 0;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t end = std::min(begin + kBlock * (1 + random() % 5), bytes.size());
      std::vector<std::span<std::byte>> pieces;
      for (std::size_t at = begin; at < end;) {
        const std::size_t size = std::min(random() % 40, end - at);
        pieces.push_back(std::span(bytes).subspan(at, size));
        at += size;
      }
      sum += SumOfBlocks(kBlock, begin, pieces);
      begin = end;
    }
    EXPECT_EQ(sum, SumOfWhole(bytes));
  }
}

TEST(BlockSumTest, ABitThatDiffersAndBlocksThatChangePlacesAreSeen) {
  std::mt19937_64 random(kFormatSeed);
  const std::vector<std::byte> bytes = RandomBytes(random, 5 * kBlock + 3);
  const std::uint64_t sum = SumOfWhole(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<std::byte> other = bytes;
    other[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_NE(SumOfWhole(other), sum) << "bit " << bit;
  }
  std::vector<std::byte> other = bytes;
  std::swap_ranges(other.begin(), other.begin() + kBlock, other.begin() + 2 * kBlock);
  EXPECT_NE(SumOfWhole(other), sum);
  other = bytes;
  other.resize(4 * kBlock);
  EXPECT_NE(SumOfWhole(other), sum);
  EXPECT_NE(SumOfWhole(std::vector<std::byte>(kBlock)), 0U);
}

TEST(SavedTensorsTest, ALayoutSaysWhatASaveHas) {
  const auto tensors = TensorsOfLayout(
      R"({"groups":[{"name":"g","parameters":[{"count":300,"name":"a","type":"bf16"}]},)"
      R"({"name":"h","parameters":[]}],"optimizer":"adamw","seed":0,"state":"8bit"})");
  ASSERT_THAT(tensors, IsOk());
  std::string all;
  for (const SavedTensor& t : *tensors) {
    all += t.name + ":" + std::to_string(t.bytes) + "/" + std::to_string(t.block_bytes) + " ";
  }
  EXPECT_EQ(all, "a:600/2048 a.m:300/1024 a.v:300/1024 a.m.scale:8/16 a.v.scale:8/16 ");
}

TEST(SavedTensorsTest, BrokenLayoutsAreRefused) {
  for (const char* layout :
       {"",
        "{}",
        "[]",
        R"({"optimizer":"adamw","state":"fp32"})",
        R"({"optimizer":"none","state":"fp32","groups":[]})",
        R"({"optimizer":"adamw","state":"fp64","groups":[]})",
        R"({"optimizer":"adamw","state":"fp32","groups":[{}]})",
        R"({"optimizer":"adamw","state":"fp32","groups":[{"parameters":[{"name":"a"}]}]})",
        R"({"optimizer":"adamw","state":"fp32","groups":[{"parameters":[)"
        R"({"name":"a","type":"fp32","count":99999999999999999}]}]})"}) {
    EXPECT_THAT(TensorsOfLayout(layout), IsStatus(kDamaged, "")) << layout;
  }
}

class SaveFormatTest : public ::testing::Test {
 protected:
  SaveFormatTest() { runtime_.Start(); }

  const std::string& directory() const { return directory_.path(); }

  TempDirectory directory_;
  RuntimeFixture runtime_;
};

TEST_F(SaveFormatTest, ASaveOfTheOldFormatIsVerifiedAndLoaded) {
  for (const StateType state : {StateType::kFp32, StateType::kBf16, StateType::k8Bit}) {
    SCOPED_TRACE(ToString(state));
    PagedModel model(runtime_, {.spec = {.state = state}, .groups = {{20000, 10}, {3000}}});
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(1);
    ASSERT_THAT(model.optimizer().Save(directory(), "note"), IsOk());
    RewriteSaveAsFormat1(directory());
    ASSERT_THAT(model.Step(), IsOk());
    const auto save = OffloadedOptimizer::VerifySave(directory());
    ASSERT_THAT(save, IsOk());
    EXPECT_EQ(save->step, 1);
    EXPECT_EQ(save->note, "note");
    ASSERT_THAT(model.optimizer().Load(directory()), IsOk());
    EXPECT_EQ(model.Paged(), model.Reference());
  }
}

TEST_F(SaveFormatTest, TheBytesOfASaveDoNotDependOnTheSizeOfPages) {
  const PagedModel::Options options{.spec = {.state = StateType::k8Bit},
                                    .groups = {{70000, 10}, {3000}}};
  std::string bytes;
  for (const Bytes page : {4_KiB, 64_KiB}) {
    RuntimeFixture runtime;
    runtime.options.page_bytes = page;
    runtime.options.dram_bytes = page * 40;
    runtime.Start();
    PagedModel model(runtime, options);
    ASSERT_THAT(model.Step(), IsOk());
    ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
    if (!bytes.empty()) {
      EXPECT_EQ(ReadSaveFile(directory()), bytes);
    }
    bytes = ReadSaveFile(directory());
  }
}

TEST_F(SaveFormatTest, VerifyFindsAnyDamageOfEitherFormatAndNamesIt) {
  PagedModel model(runtime_, {.spec = {.state = StateType::k8Bit}, .groups = {{20000, 10}}});
  ASSERT_THAT(model.Step(), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory()), IsOk());
  for (const int format : {2, 1}) {
    SCOPED_TRACE(format);
    if (format == 1) RewriteSaveAsFormat1(directory());
    EXPECT_THAT(OffloadedOptimizer::VerifySave(directory()), IsOk());
    const std::string whole = ReadSaveFile(directory());
    const auto put = [&](const std::string& bytes) {
      std::ofstream(directory() + "/optimizer.sluice", std::ios::binary) << bytes;
      return OffloadedOptimizer::VerifySave(directory()).status();
    };
    for (std::size_t at = 0; at < whole.size(); at += 2999) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      EXPECT_THAT(put(damaged), HasCode(kDamaged)) << "byte " << at;
    }
    std::string damaged = whole;
    damaged[16 + 80000] = static_cast<char>(damaged[16 + 80000] + 1);
    EXPECT_THAT(put(damaged), IsStatus(kDamaged, "the checksum of p0.m (bytes 80016 to"));
    for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{40}}) {
      EXPECT_THAT(put(whole.substr(0, size)), HasCode(kDamaged));
    }
    EXPECT_THAT(put(whole), IsOk());
  }
  std::string later = ReadSaveFile(directory());
  later[15] = 3;
  std::ofstream(directory() + "/optimizer.sluice", std::ios::binary) << later;
  EXPECT_THAT(OffloadedOptimizer::VerifySave(directory()),
              IsStatus(kDamaged, "its format 3 is not known here"));
  EXPECT_THAT(OffloadedOptimizer::VerifySave("/nowhere"), HasCode(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace sluice::optim
