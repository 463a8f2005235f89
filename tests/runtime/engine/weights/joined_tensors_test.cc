// Tensors of the bytes of others, one behind the other, which are read from their files.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/safetensors/weight_sums.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;
using Content = std::vector<std::byte>;

constexpr std::uint64_t kFileBytes = 40 * kPage + 123;
/// First byte and bytes of parts in a file: at odd places, within a page and over several.
constexpr std::array<std::pair<std::uint64_t, std::uint64_t>, 4> kParts = {
    {{3, 5}, {77, 6 * kPage}, {20 * kPage, kPage / 2}, {30 * kPage + 1, 10 * kPage + 122}}};

/// Two files of which parts are joined.
class JoinedTensorsTest : public ::testing::Test {
 protected:
  JoinedTensorsTest() {
    for (int i = 0; i < 2; ++i) {
      contents_[i] = testing::Pattern(i + 1, kFileBytes);
      std::ofstream file(PathOf(i), std::ios::binary);
      file.write(reinterpret_cast<const char*>(contents_[i].data()), kFileBytes);
    }
    runtime_.options.hbm_bytes = Bytes(0);
  }

  std::string PathOf(int file) const { return directory_.path() + "/" + std::to_string(file); }

  /// The parts of a file as tensors.
  std::vector<TensorId> Parts(int file, const FileHome& home = {.read_only = true}) {
    std::vector<TensorSpec> specs;
    for (const auto& [offset, bytes] : kParts) {
      specs.push_back(testing::ByteTensor("part", bytes));
      specs.back().file = home;
      specs.back().file->path = PathOf(file);
      specs.back().file->offset = offset;
    }
    return runtime_->CreateTensors(specs).value();
  }

  /// The parts of both files, the last one first.
  TensorSpec Joined(OffLease off_lease = OffLease::kNone) {
    TensorSpec spec = testing::ByteTensor("joined", 0);
    for (int file = 0; file < 2; ++file) {
      const std::vector<TensorId> ids = Parts(file);
      for (std::size_t i = kParts.size(); i-- > 0;) {
        const auto begin = contents_[file].begin() + static_cast<std::ptrdiff_t>(kParts[i].first);
        wanted_.insert(wanted_.end(), begin, begin + static_cast<std::ptrdiff_t>(kParts[i].second));
        spec.joined.push_back(ids[i]);
      }
    }
    spec.shape = {static_cast<std::int64_t>(wanted_.size())};
    spec.off_lease = off_lease;
    return spec;
  }

  absl::Status Refusal(const TensorSpec& spec) { return runtime_->CreateTensor(spec).status(); }

  testing::TempDirectory directory_;
  std::array<Content, 2> contents_;
  Content wanted_;
  testing::RuntimeFixture runtime_;
};

TEST_F(JoinedTensorsTest, EveryByteIsTheFilesUnderAnyBudget) {
  for (const std::uint64_t nvme : {0, 1024}) {
    for (const std::uint64_t dram : {8, 256}) {
      runtime_.options.nvme_bytes = Bytes(nvme * kPage);
      runtime_.options.dram_bytes = Bytes(dram * kPage);
      runtime_.Start();
      wanted_.clear();
      const TensorSpec spec = Joined();
      const auto joined = runtime_->CreateTensor(spec);
      ASSERT_THAT(joined, IsOk());
      for (const TensorId part : spec.joined) ASSERT_THAT(runtime_->Free(part), IsOk());
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_TRUE(runtime_.Read(*joined) == wanted_) << dram << " pages, pass " << pass;
      }
      const Stats stats = runtime_->GetStats();
      const auto disk = stats.links.find("dram-nvme");
      EXPECT_TRUE(disk == stats.links.end() || disk->second.out.bytes == 0) << "nothing is written";
      EXPECT_THAT(runtime_->Free(*joined), IsOk());
      EXPECT_EQ(runtime_->GetStats().live_bytes, 0u);
    }
  }
}

TEST_F(JoinedTensorsTest, ARangeIsLeasedAlone) {
  runtime_.options.dram_bytes = Bytes(2 * kPage);
  runtime_.Start();
  const auto joined = runtime_->CreateTensor(Joined());
  ASSERT_THAT(joined, IsOk());
  const ByteRange range{5 * kPage + 7, kPage};
  const auto lease = runtime_.Acquire(
      {.tensor = *joined, .range = range, .mode = AccessMode::kRead, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  EXPECT_TRUE(std::ranges::equal(lease->As<std::byte>(),
                                 std::span(wanted_).subspan(range.offset, range.bytes)));
  EXPECT_THAT(runtime_.Acquire({.tensor = *joined, .mode = AccessMode::kReadWrite, .tier = kDram0}),
              IsStatus(Code::kInvalidArgument, "tensor 'joined' is only read"));
}

TEST_F(JoinedTensorsTest, PagesOutsideALeaseAreAnnouncedAsHidden) {
  runtime_.options.memory.off_lease = Use::kAuto;
  runtime_.Start();
  const auto joined = runtime_->CreateTensor(Joined(OffLease::kReadable));
  ASSERT_THAT(joined, IsOk());
  std::string told;
  for (const FallbackEvent& event : runtime_->GetStats().fallbacks) {
    if (event.what == "off_lease") told += event.reason;
  }
  EXPECT_THAT(told, ::testing::HasSubstr("'joined': its bytes are put together from several"));
  const auto lease = runtime_.Acquire(
      {.tensor = *joined, .range = {0, 3 * kPage}, .mode = AccessMode::kRead, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  const auto address = runtime_->AddressOf(*joined);
  EXPECT_EQ(address->data(), lease->As<std::byte>().data());
  EXPECT_TRUE(std::ranges::equal(address->first(3 * kPage), std::span(wanted_).first(3 * kPage)));
}

TEST_F(JoinedTensorsTest, AFileThatChangesGivesNoBytes) {
  runtime_.Start();
  const auto joined = runtime_->CreateTensor(Joined());
  const auto time = std::filesystem::last_write_time(PathOf(1));
  std::filesystem::last_write_time(PathOf(1), time + std::chrono::seconds(1));
  const auto leased = [&](ByteRange range) {
    return runtime_.Acquire(
        {.tensor = *joined, .range = range, .mode = AccessMode::kRead, .tier = kDram0});
  };
  EXPECT_THAT(leased({0, 1}), IsOk()) << "the other file is as it was";
  EXPECT_THAT(leased({wanted_.size() - 1, 1}),
              IsStatus(Code::kDataLoss, "/1 has changed since its tensors were created"));
}

TEST_F(JoinedTensorsTest, BlocksAreVerifiedWherePartsHaveChecksums) {
  constexpr std::uint64_t kBlock = io::kSumBlockBytes;
  runtime_.options.page_bytes = Bytes(kBlock);
  runtime_.options.dram_bytes = Bytes(16 * kBlock);
  runtime_.options.nvme_bytes = Bytes(0);
  runtime_.Start();
  auto sums = std::make_shared<io::BlockSums>();
  io::AppendSums(contents_[0], sums.get());
  for (const bool damaged : {false, true}) {
    if (damaged) ++sums->back();
    TensorSpec spec = testing::ByteTensor("joined", kParts[3].second + kParts[1].second);
    const std::vector<TensorId> parts = Parts(0, {.read_only = true, .block_sums = sums});
    spec.joined = {parts[1], parts[3]};
    const auto joined = runtime_->CreateTensor(spec);
    ASSERT_THAT(joined, IsOk());
    const auto lease =
        runtime_.Acquire({.tensor = *joined, .mode = AccessMode::kRead, .tier = kDram0});
    if (damaged) {
      EXPECT_THAT(lease, IsStatus(Code::kDataLoss, "/0 differs from its checksum in the 64 KiB"));
      continue;
    }
    ASSERT_THAT(lease, IsOk());
    const std::span all(contents_[0]);
    const auto found = lease->As<std::byte>();
    EXPECT_TRUE(std::ranges::equal(found.first(kParts[1].second),
                                   all.subspan(kParts[1].first, kParts[1].second)));
    EXPECT_TRUE(std::ranges::equal(found.subspan(kParts[1].second),
                                   all.subspan(kParts[3].first, kParts[3].second)));
  }
}

TEST_F(JoinedTensorsTest, OtherPartsAreRefusedByName) {
  runtime_.Start();
  const TensorSpec whole = Joined();
  TensorSpec spec = whole;
  spec.shape = {static_cast<std::int64_t>(wanted_.size()) + 1};
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, " bytes, and is joined of "));
  spec = whole;
  spec.joined.push_back(TensorId{999});
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, "there is no tensor with id 999"));
  spec = whole;
  spec.joined = {runtime_.Make("plain", wanted_.size())};
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, "'joined' is joined of 'plain'"));
  spec.joined = {runtime_->CreateTensor(whole).value()};
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, "'joined' is joined of 'joined'"));
  spec = whole;
  spec.file = FileHome{.path = PathOf(0), .read_only = true};
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, "create it alone, without a file"));
  EXPECT_THAT(runtime_->CreateTensors(std::vector{whole, whole}).status(),
              IsStatus(Code::kInvalidArgument, "create it alone"));
  spec = whole;
  spec.lowest = TierKind::kHbm;
  EXPECT_THAT(Refusal(spec), IsStatus(Code::kInvalidArgument, "its lowest tier cannot be hbm"));
  EXPECT_THAT(runtime_->Adopt(whole, wanted_, [] {}),
              IsStatus(Code::kInvalidArgument, "'joined' is adopted and cannot"));
}

}  // namespace
}  // namespace sluice
