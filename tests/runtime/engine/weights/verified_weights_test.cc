// Weights whose pages are verified by the checksums beside the checkpoint.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/safetensors/weight_sums.h"
#include "sluice/weights.h"
#include "tests/io/safetensors/file_content.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;
using Code = absl::StatusCode;

constexpr std::uint64_t kSumPage = std::uint64_t{128} << 10;

/// A checkpoint of one file and its checksums, under a budget of some pages.
class VerifiedWeightsTest : public ::testing::Test {
 protected:
  VerifiedWeightsTest() {
    std::mt19937 random(7);
    data_.resize(10 * kSumPage + 12345);
    for (char& each : data_) each = static_cast<char>(random());
    const io::FileContent model{
        .metadata = {}, .tensors = {{"w", "U8", {static_cast<std::int64_t>(data_.size())}, data_}}};
    model.Write(path_);
    Sum();
    runtime_.options.hbm_bytes = Bytes(0);
    runtime_.options.page_bytes = Bytes(kSumPage);
    runtime_.options.dram_bytes = Bytes(16 * kSumPage);
    runtime_.options.nvme_bytes = Bytes(0);
  }

  /// Writes the file of `sluice weights sum`.
  void Sum() {
    std::ifstream file(path_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    io::BlockSums sums;
    io::AppendSums(std::as_bytes(std::span(bytes)), &sums);
    io::FileContent{.metadata = {{io::kSumsKindKey, io::kSumsKind}},
                    .tensors = {{"m.safetensors",
                                 "I64",
                                 {static_cast<std::int64_t>(sums.size())},
                                 std::string(reinterpret_cast<const char*>(sums.data()),
                                             sums.size() * sizeof(sums[0]))}}}
        .Write(path_ + ".sums");
  }

  /// Changes a byte of the file, but not its time.
  void Damage(std::uint64_t at) const {
    const auto time = std::filesystem::last_write_time(path_);
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    std::filesystem::last_write_time(path_, time);
  }

  absl::StatusOr<std::string> Opened(Use sums) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Weight> weights,
                            runtime_->OpenWeights(path_, {.sums = sums}));
    SLUICE_ASSIGN_OR_RETURN(
        const Lease lease,
        runtime_.Acquire({.tensor = weights[0].tensor, .mode = AccessMode::kRead, .tier = kDram0}));
    const auto bytes = lease.As<std::byte>();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  testing::TempDirectory directory_;
  const std::string path_ = directory_.path() + "/m.safetensors";
  std::string data_;
  RuntimeFixture runtime_;
};

TEST_F(VerifiedWeightsTest, WholePagesHaveTheFilesBytes) {
  for (const Use use : {Use::kAuto, Use::kRequire, Use::kOff}) {
    SCOPED_TRACE(ToString(use));
    runtime_.Start();
    const auto bytes = Opened(use);
    ASSERT_THAT(bytes, IsOk());
    EXPECT_TRUE(*bytes == data_);
  }
}

TEST_F(VerifiedWeightsTest, AByteThatChangedIsNamedInEveryBlock) {
  const std::uint64_t bytes = std::filesystem::file_size(path_);
  for (const std::uint64_t at : {bytes - 1, bytes / 2, std::uint64_t{200}}) {
    SCOPED_TRACE(at);
    Damage(at);
    runtime_.Start();
    const std::uint64_t block = at / io::kSumBlockBytes * io::kSumBlockBytes;
    EXPECT_THAT(Opened(Use::kAuto),
                IsStatus(Code::kDataLoss,
                         "m.safetensors differs from its checksum in the 64 KiB from byte " +
                             std::to_string(block) + " on"));
    runtime_.Start();
    EXPECT_THAT(Opened(Use::kOff), IsOk()) << "nothing verifies";
    Damage(at);
  }
  runtime_.Start();
  EXPECT_THAT(Opened(Use::kAuto), IsOk()) << "the damage is undone";
}

TEST_F(VerifiedWeightsTest, MissingChecksumsAreAnErrorOnlyIfRequired) {
  std::filesystem::remove(path_ + ".sums");
  runtime_.Start();
  EXPECT_THAT(Opened(Use::kAuto), IsOk());
  EXPECT_THAT(Opened(Use::kRequire), IsStatus(Code::kNotFound, "m.safetensors.sums"));
}

TEST_F(VerifiedWeightsTest, ChecksumsThatDoNotFitAreRefused) {
  runtime_.Start();
  io::FileContent sums = io::FileContent::Read(path_ + ".sums");
  io::FileContent shorter = sums;
  shorter.tensors[0].shape[0] -= 1;
  shorter.tensors[0].data.resize(shorter.tensors[0].data.size() - 8);
  shorter.Write(path_ + ".sums");
  EXPECT_THAT(Opened(Use::kAuto),
              IsStatus(Code::kInvalidArgument, "it has changed since they were made"));
  sums.tensors[0].name = "other.safetensors";
  sums.Write(path_ + ".sums");
  EXPECT_THAT(Opened(Use::kAuto), IsStatus(Code::kInvalidArgument, "has no checksums of " + path_));
  EXPECT_EQ(runtime_->GetStats().live_bytes, 0u);
}

TEST_F(VerifiedWeightsTest, PagesThatAreNoWholeBlocksAreRefused) {
  runtime_.options.page_bytes = Bytes(4096);
  runtime_.options.dram_bytes = Bytes(16 * kSumPage);
  runtime_.Start();
  EXPECT_THAT(Opened(Use::kAuto),
              IsStatus(Code::kInvalidArgument,
                       "are of blocks of 64 KiB, and page_bytes is 4 KiB: make it 64 KiB or more, "
                       "or set WeightOptions::sums to Use::kOff"));
  const auto bytes = Opened(Use::kOff);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_TRUE(*bytes == data_);
}

}  // namespace
}  // namespace sluice
