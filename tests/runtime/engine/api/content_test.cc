#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;
using testing::TempDirectory;

class ContentTest : public ::testing::Test {
 protected:
  /// Fills hbm and dram with something else, so that what was there sits in nvme alone.
  void PushOut() {
    const TensorId filler = runtime_.Make("filler", 64 * kPage);
    runtime_.Write(filler, Pattern(99, 64 * kPage));
    ASSERT_THAT(runtime_->Free(filler), IsOk());
  }

  RuntimeFixture runtime_;
};

TEST_F(ContentTest, DiscardedContentReadsAsZeros) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 3 * kPage + 5);
  runtime_.Write(tensor, Pattern(1, 3 * kPage + 5));
  ASSERT_THAT(runtime_->Discard(tensor), IsOk());
  EXPECT_EQ(runtime_.Read(tensor), std::vector<std::byte>(3 * kPage + 5));
}

TEST_F(ContentTest, DiscardOfARangeActsOnWholePagesInside) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 4 * kPage);
  auto expected = Pattern(2, 4 * kPage);
  runtime_.Write(tensor, expected);
  ASSERT_THAT(runtime_->Discard(tensor, {kPage / 2, 2 * kPage}), IsOk());
  std::fill_n(expected.begin() + kPage, kPage, std::byte{});
  EXPECT_EQ(runtime_.Read(tensor), expected);
}

TEST_F(ContentTest, DiscardSparesAPageThatATensorShares) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {ByteTensor("a", 100), ByteTensor("b", kPage)};
  const auto tensors = runtime_->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  runtime_.Write((*tensors)[0], Pattern(3, 100));
  runtime_.Write((*tensors)[1], Pattern(4, kPage));
  ASSERT_THAT(runtime_->Discard((*tensors)[1]), IsOk());
  EXPECT_EQ(runtime_.Read((*tensors)[0]), Pattern(3, 100));
  ASSERT_THAT(runtime_->Discard((*tensors)[0]), IsOk());
  EXPECT_EQ(runtime_.Read((*tensors)[0]), Pattern(3, 100)) << "b is still there";
}

TEST_F(ContentTest, DiscardWaitsForLeasesTakenBefore) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", kPage);
  runtime_.Write(tensor, Pattern(5, kPage));
  auto lease = runtime_.Acquire({.tensor = tensor, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  ASSERT_THAT(runtime_->Discard(tensor), IsOk());
  static_cast<void>(runtime_->GetStats());  // the discard has arrived by now
  const auto expected = Pattern(5, kPage);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), lease->Contiguous().begin()));
}

TEST_F(ContentTest, PartialOverwriteKeepsTheRestOfThePage) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {
      ByteTensor("a", 1000), ByteTensor("b", 1000), ByteTensor("c", 3000)};
  const auto tensors = runtime_->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  runtime_.Write((*tensors)[0], Pattern(1, 1000));
  runtime_.Write((*tensors)[1], Pattern(2, 1000));
  runtime_.Write((*tensors)[2], Pattern(3, 3000));
  PushOut();
  runtime_.Write((*tensors)[1], Pattern(4, 500), 250);
  EXPECT_EQ(runtime_.Read((*tensors)[0]), Pattern(1, 1000));
  EXPECT_EQ(runtime_.Read((*tensors)[2]), Pattern(3, 3000));
  auto expected = Pattern(2, 1000);
  const auto middle = Pattern(4, 500);
  std::copy(middle.begin(), middle.end(), expected.begin() + 250);
  EXPECT_EQ(runtime_.Read((*tensors)[1]), expected);
}

TEST_F(ContentTest, OverwriteOfWholePagesReadsNothing) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 4 * kPage);
  runtime_.Write(tensor, Pattern(1, 4 * kPage));
  PushOut();
  const std::uint64_t before = runtime_->GetStats().links.at("dram-nvme").in.bytes;
  runtime_.Write(tensor, Pattern(2, 4 * kPage));
  EXPECT_EQ(runtime_->GetStats().links.at("dram-nvme").in.bytes, before);
  EXPECT_EQ(runtime_.Read(tensor), Pattern(2, 4 * kPage));
}

TEST_F(ContentTest, OverwriteLeasesAreFilledWithNanOnRequest) {
  runtime_.options.fill_overwrite_with_nan = true;
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 2 * kPage);
  auto lease = runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  for (const float value : lease->As<float>()) ASSERT_TRUE(value != value);
}

TEST_F(ContentTest, AdoptedBytesAreThereAndTheDeleterRuns) {
  runtime_.Start();
  const auto bytes = Pattern(8, 100 * kPage + 3);
  bool deleted = false;
  const auto tensor =
      runtime_->Adopt(ByteTensor("adopted", bytes.size()), bytes, [&] { deleted = true; });
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(deleted);
  EXPECT_EQ(runtime_.Read(*tensor, kHbm0), bytes);
  EXPECT_EQ(runtime_->GetStats().live_bytes, bytes.size());
}

TEST_F(ContentTest, BytesOfAnySizeAreWrittenAndReadWhole) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {ByteTensor("before", 100),
                                         ByteTensor("t", 300 * kPage + 5)};
  const auto tensors = runtime_->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  const TensorId tensor = (*tensors)[1];
  const auto bytes = Pattern(4, 300 * kPage + 5);
  ASSERT_THAT(runtime_->Write(tensor, bytes), IsOk());
  std::vector<std::byte> read(bytes.size());
  ASSERT_THAT(runtime_->Read(tensor, read), IsOk());
  EXPECT_EQ(read, bytes);
  std::vector<std::byte> neighbour(100);
  ASSERT_THAT(runtime_->Read((*tensors)[0], neighbour), IsOk());
  EXPECT_EQ(neighbour, std::vector<std::byte>(100));
}

TEST_F(ContentTest, WritesAndReadsOfAPartLeaveTheRest) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 40 * kPage);
  auto expected = Pattern(1, 40 * kPage);
  ASSERT_THAT(runtime_->Write(tensor, expected), IsOk());
  std::mt19937_64 random(7);
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t offset = random() % expected.size();
    const std::uint64_t size = random() % (expected.size() - offset) + 1;
    const auto part = Pattern(random(), size);
    ASSERT_THAT(runtime_->Write(tensor, part, offset), IsOk());
    std::ranges::copy(part, expected.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<std::byte> read(expected.size() - offset);
    ASSERT_THAT(runtime_->Read(tensor, read, offset), IsOk());
    ASSERT_TRUE(std::ranges::equal(read, std::span(expected).subspan(offset))) << "round " << i;
  }
}

TEST_F(ContentTest, ReadsAndWritesWaitForNothingButTheirOwnLeases) {
  runtime_.Start();
  const TensorId held = runtime_.Make("held", kPage);
  const TensorId other = runtime_.Make("other", kPage);
  auto lease = runtime_.Acquire({.tensor = held, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  std::thread writer([&] { EXPECT_THAT(runtime_->Write(held, Pattern(1, kPage)), IsOk()); });
  for (int i = 0; i < 20; ++i) {
    std::vector<std::byte> bytes(kPage);
    EXPECT_THAT(runtime_->Read(other, bytes), IsOk());
  }
  lease->Release();
  writer.join();
  EXPECT_EQ(runtime_.Read(held), Pattern(1, kPage));
}

TEST_F(ContentTest, ReadsAndWritesDoWithTheFramesThatAreLeft) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 40 * kPage);
  const auto reserved = runtime_->Reserve(kDram0, Bytes(26 * kPage));  // two are left
  ASSERT_THAT(reserved, IsOk());
  ASSERT_THAT(runtime_->Write(tensor, Pattern(3, 40 * kPage)), IsOk());
  std::vector<std::byte> read(40 * kPage);
  ASSERT_THAT(runtime_->Read(tensor, read), IsOk());
  EXPECT_EQ(read, Pattern(3, 40 * kPage));
}

TEST_F(ContentTest, WritesOfWhatIsNoRangeAreRefused) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", 10);
  const std::vector<std::byte> bytes(6);
  EXPECT_THAT(runtime_->Write(tensor, bytes, 5),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "'t' has 10 bytes; 6 bytes from offset 5 are not a range of it"));
  EXPECT_THAT(runtime_->Write(tensor, {}, 11), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(runtime_->Write(tensor, {}, 10), IsOk());
  EXPECT_THAT(runtime_->Write(TensorId{99}, bytes), HasCode(absl::StatusCode::kNotFound));
  std::vector<std::byte> read(11);
  EXPECT_THAT(runtime_->Read(tensor, read), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_F(ContentTest, LeasesAreInTheFastestTierUnlessOneIsNamed) {
  for (const bool hbm : {true, false}) {
    if (!hbm) runtime_.options.hbm_bytes = {};
    runtime_.Start();
    const TensorId tensor = runtime_.Make("t", 10);
    Op op = runtime_->BeginOp({.name = "op"});
    const auto lease = op.Acquire({.tensor = tensor});
    ASSERT_THAT(lease, IsOk());
    EXPECT_EQ(lease->tier(), hbm ? kHbm0 : kDram0);
  }
}

TEST_F(ContentTest, AdoptOfAnotherSizeIsRefused) {
  runtime_.Start();
  bool deleted = false;
  EXPECT_THAT(runtime_->Adopt(ByteTensor("t", 10), Pattern(1, 11), [&] { deleted = true; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "'t' has 10 bytes, 11 were given"));
  EXPECT_FALSE(deleted);
}

TEST_F(ContentTest, FreedCapacityIsUsedAgain) {
  runtime_.Start();
  for (int i = 0; i < 8; ++i) {
    const TensorId tensor = runtime_.Make("big", 600 * kPage);
    runtime_.Write(tensor, Pattern(1, 40 * kPage));
    ASSERT_THAT(runtime_->Free(tensor), IsOk());
    EXPECT_THAT(runtime_->Free(tensor), HasCode(absl::StatusCode::kNotFound));
    EXPECT_THAT(runtime_->NameOfTensor(tensor), HasCode(absl::StatusCode::kNotFound));
  }
  EXPECT_EQ(runtime_->GetStats().padding_bytes, 0u);
}

TEST_F(ContentTest, FreeOfOneTensorSparesItsNeighbours) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {
      ByteTensor("a", kPage + 100), ByteTensor("b", 3 * kPage), ByteTensor("c", 100)};
  const auto tensors = runtime_->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  runtime_.Write((*tensors)[0], Pattern(1, kPage + 100));
  runtime_.Write((*tensors)[2], Pattern(3, 100));
  ASSERT_THAT(runtime_->Free((*tensors)[1]), IsOk());
  EXPECT_EQ(runtime_.Read((*tensors)[0]), Pattern(1, kPage + 100));
  EXPECT_EQ(runtime_.Read((*tensors)[2]), Pattern(3, 100));
  ASSERT_THAT(runtime_->Free((*tensors)[0]), IsOk());
  EXPECT_EQ(runtime_.Read((*tensors)[2]), Pattern(3, 100));
  ASSERT_THAT(runtime_->Free((*tensors)[2]), IsOk());
  EXPECT_EQ(runtime_->GetStats().padding_bytes, 0u);
}

TEST_F(ContentTest, FileHomeIsReadFromItsOffsetAndNeverWritten) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/weights";
  const auto content = Pattern(12, 1001 + 5 * kPage + 77);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
  runtime_.Start();
  TensorSpec spec = ByteTensor("weights", 5 * kPage + 77);
  spec.file = FileHome{path, 1001};
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(runtime_->GetStats().live_bytes, 5 * kPage + 77);
  std::vector<std::byte> expected(content.begin() + 1001, content.end());
  EXPECT_EQ(runtime_.Read(*tensor, kHbm0), expected);
  PushOut();
  EXPECT_EQ(runtime_.Read(*tensor), expected);
  runtime_.Write(*tensor, Pattern(13, 10), kPage);  // the page has a slot from now on
  const auto written = Pattern(13, 10);
  std::copy(written.begin(), written.end(), expected.begin() + kPage);
  PushOut();
  EXPECT_EQ(runtime_.Read(*tensor), expected);
  std::ifstream file(path, std::ios::binary);
  const std::string after((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(std::equal(after.begin(), after.end(), content.begin(), [](char a, std::byte b) {
    return static_cast<std::byte>(a) == b;
  }));
}

TEST_F(ContentTest, TheTraceShowsPagesThatComeFromFiles) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/weights";
  std::ofstream(path) << std::string(3 * kPage, 'w');
  base::Mutex mutex;
  std::vector<std::string> read;
  runtime_.options.trace = [&](const TraceSpan& span) {
    const base::MutexLock lock(mutex);
    if (span.track == "file in") read.push_back(span.name);
    EXPECT_LE(span.begin, span.end);
  };
  runtime_.Start();
  TensorSpec spec = ByteTensor("weights", 3 * kPage);
  spec.file = FileHome{path, 0};
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(runtime_.Read(*tensor), std::vector<std::byte>(3 * kPage, std::byte{'w'}));
  runtime_.Stop();
  EXPECT_EQ(read, std::vector<std::string>(3, "weights"));
}

TEST_F(ContentTest, FileHomeThatIsTooShortOrMissingIsRefused) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/short";
  std::ofstream(path) << "0123456789";
  runtime_.Start();
  TensorSpec spec = ByteTensor("weights", 8);
  spec.file = FileHome{path, 3};
  EXPECT_THAT(runtime_->CreateTensor(spec),
              IsStatus(absl::StatusCode::kInvalidArgument, "has 10 bytes; 8 from offset 3"));
  spec.file->path = directory.path() + "/missing";
  EXPECT_THAT(runtime_->CreateTensor(spec), HasCode(absl::StatusCode::kNotFound));
}

TEST_F(ContentTest, APipeIsRefusedThoughNobodyHasItOpenForWriting) {
  runtime_.Start();
  TempDirectory directory;
  TensorSpec spec = ByteTensor("pipe", 1);
  spec.file = FileHome{directory.path() + "/pipe", 0};
  ASSERT_EQ(mkfifo(spec.file->path.c_str(), 0600), 0);
  EXPECT_THAT(runtime_->CreateTensor(spec),
              IsStatus(absl::StatusCode::kInvalidArgument, "is not a regular file"));
}

TEST_F(ContentTest, FileThatShrinksLosesThePagesBehindItsEnd) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/shrinking";
  std::ofstream(path) << std::string(2 * kPage, 'x');
  runtime_.Start();
  TensorSpec spec = ByteTensor("weights", 2 * kPage);
  spec.file = FileHome{path, 0};
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(kPage + 1)), 0);
  EXPECT_THAT(runtime_.Acquire({.tensor = *tensor, .range = {0, kPage}, .tier = kDram0}), IsOk());
  EXPECT_THAT(runtime_.Acquire({.tensor = *tensor, .range = {kPage, kPage}, .tier = kDram0}),
              IsStatus(absl::StatusCode::kDataLoss,
                       "the content is lost: " + path + " ends at offset 4097"));
}

TEST_F(ContentTest, LostPageIsReproducedByItsCallback) {
  StoreFaults& faults = runtime_.faults;
  runtime_.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime_.Start();
  const auto content = Pattern(21, 3 * kPage + 10);
  TensorSpec spec = ByteTensor("derived", content.size());
  spec.reproduce = [&](ByteRange range, std::span<std::byte> out) {
    std::copy_n(
        content.begin() + static_cast<std::ptrdiff_t>(range.offset), out.size(), out.begin());
    return absl::OkStatus();
  };
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, content);
  PushOut();
  faults.FailReads(absl::DataLossError("checksum mismatch"));
  EXPECT_EQ(runtime_.Read(*tensor), content);
  EXPECT_GT(runtime_->GetStats().links.at("dram-nvme").in.failed, 0u);
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
}

TEST_F(ContentTest, LostPageIsATypedErrorAndOtherTensorsGoOn) {
  StoreFaults& faults = runtime_.faults;
  runtime_.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime_.Start();
  const TensorId lost = runtime_.Make("lost", 4 * kPage);
  const TensorId safe = runtime_.Make("safe", 4 * kPage);
  runtime_.Write(lost, Pattern(1, 4 * kPage));
  runtime_.Write(safe, Pattern(2, 4 * kPage));
  PushOut();
  faults.FailReads(absl::DataLossError("checksum mismatch"));
  const Access second{.tensor = lost, .range = {kPage + 8, 100}, .tier = kDram0};
  EXPECT_THAT(
      runtime_.Acquire(second),
      IsStatus(absl::StatusCode::kDataLoss,
               "tensor 'lost', bytes 4104 to 4203: the only copy in nvme0 is lost: checksum"));
  faults.FailReads(absl::OkStatus());
  EXPECT_THAT(runtime_.Acquire(second), HasCode(absl::StatusCode::kDataLoss))
      << "the page stays lost";
  EXPECT_EQ(runtime_.Read(safe), Pattern(2, 4 * kPage));
  ASSERT_EQ(runtime_.listener.lost().size(), 1u);
  EXPECT_EQ(runtime_.listener.lost()[0].tensor, "lost");
  EXPECT_EQ(runtime_.listener.lost()[0].range, (ByteRange{kPage, kPage}));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 1u);
  EXPECT_EQ(runtime_->Health().state, HealthState::kDegraded);
  EXPECT_EQ(runtime_.log.Count("core events follow"), 1);
  EXPECT_GT(runtime_.log.Count("acquire ticket"), 0);
  runtime_.Write(lost, Pattern(3, kPage), kPage);  // new content heals the page
  EXPECT_THAT(runtime_.Acquire(second), IsOk());
}

TEST_F(ContentTest, FailedReproductionNamesBothCauses) {
  StoreFaults& faults = runtime_.faults;
  runtime_.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime_.Start();
  TensorSpec spec = ByteTensor("derived", kPage);
  spec.reproduce = [](ByteRange, std::span<std::byte>) { return absl::NotFoundError("no recipe"); };
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, Pattern(1, kPage));
  PushOut();
  faults.FailReads(absl::DataLossError("checksum mismatch"));
  EXPECT_THAT(
      runtime_.Acquire({.tensor = *tensor, .tier = kDram0}),
      IsStatus(absl::StatusCode::kDataLoss,
               "checksum mismatch; then the reproduce callback of tensor 'derived': no recipe"));
}

}  // namespace
}  // namespace sluice
