// nvme on two drives: pages on both, and one of them fails while the runtime runs.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

constexpr std::uint64_t kTensorBytes = 100 * kPage;

class SeveralDrivesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime_.options.io.more_directories = {second_.path()};
    runtime_.hooks.drive_rates = {1e9, 1e9};
    runtime_.Start();
  }

  /// Cuts the second drive's file to nothing, from outside: it has no name, but a descriptor.
  void EmptySecondDrive() {
    int cut = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry, gone);
      if (gone || !target.starts_with(second_.path() + "/")) continue;
      const int fd = std::stoi(entry.path().filename());
      ASSERT_EQ(ftruncate(fd, 0), 0);
      ++cut;
    }
    ASSERT_EQ(cut, 1);
  }

  TensorId MakeReproducible(const std::string& name) {
    TensorSpec spec = testing::ByteTensor(name, kTensorBytes);
    spec.reproduce = [](ByteRange range, std::span<std::byte> out) {
      const auto content = Pattern(3, kTensorBytes);
      std::copy_n(
          content.begin() + static_cast<std::ptrdiff_t>(range.offset), out.size(), out.begin());
      return absl::OkStatus();
    };
    const auto tensor = runtime_->CreateTensor(spec);
    EXPECT_THAT(tensor, testing::IsOk());
    return tensor.value_or(TensorId{});
  }

  testing::TempDirectory second_;
  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(SeveralDrivesTest, PagesGoToBothAndComeBack) {
  const TensorId tensor = runtime_.Make("t", kTensorBytes);
  runtime_.Write(tensor, Pattern(1, kTensorBytes));
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, kTensorBytes));
  const IoStats io = runtime_->GetStats().io;
  ASSERT_EQ(io.drives.size(), 2u);
  EXPECT_EQ(io.drives[1].directory, second_.path());
  for (const DriveStats& drive : io.drives) {
    EXPECT_GT(drive.writes, 10u) << drive.directory;
    EXPECT_EQ(drive.places, RuntimeFixture::kNvmePages / 2 + 1);
    EXPECT_FALSE(drive.fenced);
  }
}

TEST_F(SeveralDrivesTest, DrivesThatAreMeasuredShareByWhatTheyGive) {
  runtime_.hooks.drive_rates.clear();
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", kTensorBytes);
  runtime_.Write(tensor, Pattern(1, kTensorBytes));
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, kTensorBytes));
  const IoStats io = runtime_->GetStats().io;
  ASSERT_EQ(io.drives.size(), 2u);
  const bool first_is_faster =
      io.drives[0].bytes_per_second_at_start > io.drives[1].bytes_per_second_at_start;
  EXPECT_GE(io.drives[first_is_faster ? 0 : 1].places, io.drives[first_is_faster ? 1 : 0].places);
  for (const DriveStats& drive : io.drives) {
    EXPECT_GT(drive.writes, 0u) << drive.directory;
    EXPECT_GE(drive.places, RuntimeFixture::kNvmePages / 20) << "a tenth of an even share";
    EXPECT_EQ(drive.bytes_per_second_at_start > 0, io.direct) << "else it would be the cache's";
  }
}

TEST_F(SeveralDrivesTest, ADriveThatFailsIsNamedAndWhatCanBeReproducedIs) {
  const TensorId tensor = MakeReproducible("derived");
  runtime_.Write(tensor, Pattern(3, kTensorBytes));
  EmptySecondDrive();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(runtime_.Read(tensor), Pattern(3, kTensorBytes));
  }
  const std::vector<DriveFencedEvent> fenced = runtime_.listener.drives_fenced();
  ASSERT_EQ(fenced.size(), 1u);
  EXPECT_EQ(fenced[0].directory, second_.path());
  EXPECT_TRUE(fenced[0].sole_copies.empty()) << "the pages can be made again";
  EXPECT_TRUE(runtime_->GetStats().io.drives[1].fenced);
  EXPECT_TRUE(runtime_.listener.lost().empty());
  EXPECT_EQ(runtime_->Health().state, HealthState::kDegraded);
  EXPECT_THAT(runtime_->Health().reasons,
              ::testing::Contains(HasSubstr("drive " + second_.path() + " takes no pages")));
  // Later writes are safe on the other drive.
  const TensorId after = runtime_.Make("after", kTensorBytes);
  runtime_.Write(after, Pattern(5, kTensorBytes));
  EXPECT_EQ(runtime_.Read(after), Pattern(5, kTensorBytes));
}

TEST_F(SeveralDrivesTest, SoleCopiesOnAFailedDriveAreLostByName) {
  const TensorId sole = runtime_.Make("sole", kTensorBytes);
  runtime_.Write(sole, Pattern(1, kTensorBytes));
  EmptySecondDrive();
  std::uint64_t lost = 0, whole = 0;
  for (std::uint64_t offset = 0; offset < kTensorBytes; offset += kPage) {
    const auto lease = runtime_.Acquire({.tensor = sole, .range = {offset, kPage}, .tier = kDram0});
    if (lease.ok()) {
      const auto content = Pattern(1, kTensorBytes);
      EXPECT_TRUE(std::equal(lease->Spans()[0].begin(),
                             lease->Spans()[0].end(),
                             content.begin() + static_cast<std::ptrdiff_t>(offset)));
      ++whole;
    } else {
      EXPECT_THAT(lease.status(), testing::IsStatus(absl::StatusCode::kDataLoss, "sole"));
      ++lost;
    }
  }
  EXPECT_GT(lost, 10u);
  EXPECT_GT(whole, 10u);
  EXPECT_EQ(runtime_.listener.lost().size(), lost);
  const std::vector<DriveFencedEvent> fenced = runtime_.listener.drives_fenced();
  ASSERT_EQ(fenced.size(), 1u);
  ASSERT_EQ(fenced[0].sole_copies.size(), 1u);
  EXPECT_EQ(fenced[0].sole_copies[0].tensor, "sole");
  // The three by which it was found out may be lost already; some that were cut off were written
  // anew.
  EXPECT_LE(fenced[0].sole_copies[0].bytes, kTensorBytes);
  EXPECT_GE(fenced[0].sole_copies[0].bytes, (lost - 3) * kPage);
  EXPECT_THAT(runtime_->Health().reasons,
              ::testing::Contains(HasSubstr("drive " + second_.path() +
                                            " failed with bytes that are only there: ")));
}

/// Clean pages in dram whose copy below is on the failed drive are not dropped on its word.
TEST_F(SeveralDrivesTest, PagesWithAnotherCopyAreWrittenElsewhere) {
  runtime_.options.policy = "lru";
  runtime_.Start();
  const std::uint64_t warm_bytes = 8 * kPage;
  const TensorId warm = runtime_.Make("warm", warm_bytes);
  runtime_.Write(warm, Pattern(2, warm_bytes));
  const TensorId cold = runtime_.Make("cold", kTensorBytes);
  runtime_.Write(cold, Pattern(1, kTensorBytes));          // warm goes down
  EXPECT_EQ(runtime_.Read(warm), Pattern(2, warm_bytes));  // warm comes back, clean in dram
  EmptySecondDrive();
  for (std::uint64_t offset = 0; offset < 12 * kPage; offset += kPage) {
    // Half of the reads fail, which fences the drive. The budget holds warm beside them.
    (void)runtime_.Acquire({.tensor = cold, .range = {offset, kPage}, .tier = kDram0});
    if (!runtime_.listener.drives_fenced().empty()) break;
  }
  ASSERT_EQ(runtime_.listener.drives_fenced().size(), 1u);
  const TensorId more = runtime_.Make("more", kTensorBytes);
  runtime_.Write(more, Pattern(4, kTensorBytes));  // warm goes down again
  EXPECT_EQ(runtime_.Read(warm), Pattern(2, warm_bytes));
  EXPECT_EQ(runtime_.Read(more), Pattern(4, kTensorBytes));
}

/// Pages whose writes have ended on the drive when it fails, before the core has heard of that.
class JustWrittenTest : public SeveralDrivesTest {
 protected:
  static constexpr std::uint64_t kKeptPages = 24;
  static constexpr std::uint64_t kSparePages = 40;
  static constexpr std::uint64_t kDisplaced = 16;
  static constexpr std::uint64_t kReads = 32;

  /// dram is full of `kept`, and `spare` after it; `sole` is further down.
  void SetUp() override {
    runtime_.options.io.more_directories = {second_.path()};
    runtime_.options.io.queue_depth = 4 * kReads;
    runtime_.options.hbm_bytes = Bytes();
    runtime_.options.dram_bytes = Bytes((kKeptPages + kSparePages) * kPage);
    runtime_.options.policy = "lru";
    runtime_.hooks.drive_rates = {1e9, 1e9};
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
    sole_ = runtime_.Make("sole", kTensorBytes);
    runtime_.Write(sole_, Pattern(1, kTensorBytes));
    kept_ = runtime_.Make("kept", kKeptPages * kPage);
    runtime_.Write(kept_, Pattern(2, kKeptPages * kPage));
    spare_ = runtime_.Make("spare", kSparePages * kPage);
    runtime_.Write(spare_, Pattern(3, kSparePages * kPage));
  }
  void TearDown() override { faults_.Release(); }

  Ticket Ask(const Access& access) {
    const std::string lane = std::to_string(ops_.size());
    ops_.push_back(runtime_->BeginOp({.name = "asks", .lane = lane}));
    return ops_.back().AcquireAll({&access, 1});
  }

  /// Pages of `kept` leave for both drives, and the core hears of no end.
  void DisplaceKept() {
    faults_.Hold();
    const TensorId fresh = runtime_.Make("fresh", kDisplaced * kPage);
    Ticket ticket = Ask({.tensor = fresh, .mode = AccessMode::kOverwrite, .tier = kDram0});
    faults_.WaitForHeld(kDisplaced / 2);  // some had been cleaned before
    ASSERT_THAT(runtime_->Free(spare_), testing::IsOk());
    EXPECT_THAT(ticket.Take(), testing::IsOk());
  }

  void AwaitNotice() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (runtime_.listener.drives_fenced().empty()) {
      runtime_->GetStats();  // the core thread answers
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
  }

  /// Bytes of `kept` that are lost. Checks that the others are as they were written.
  std::uint64_t CountLostOfKept() {
    const auto content = Pattern(2, kKeptPages * kPage);
    std::uint64_t lost = 0;
    for (std::uint64_t offset = 0; offset < kKeptPages * kPage; offset += kPage) {
      const auto lease =
          runtime_.Acquire({.tensor = kept_, .range = {offset, kPage}, .tier = kDram0});
      if (!lease.ok()) {
        lost += kPage;
        continue;
      }
      EXPECT_TRUE(std::equal(lease->Spans()[0].begin(),
                             lease->Spans()[0].end(),
                             content.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
    return lost;
  }

  TensorId sole_, kept_, spare_;
  std::vector<Op> ops_;
};

TEST_F(JustWrittenTest, NothingIsLostThatWasNotNamed) {
  DisplaceKept();
  EmptySecondDrive();
  Ticket finds_out = Ask({.tensor = sole_, .range = {0, kReads * kPage}, .tier = kDram0});
  AwaitNotice();
  faults_.Release();
  EXPECT_THAT(finds_out.Take(), testing::IsStatus(absl::StatusCode::kDataLoss, "sole"));
  const std::vector<DriveFencedEvent> fenced = runtime_.listener.drives_fenced();
  ASSERT_EQ(fenced.size(), 1u);
  std::uint64_t named = 0;
  for (const SoleCopy& copy : fenced[0].sole_copies)
    named += copy.tensor == "kept" ? copy.bytes : 0;
  EXPECT_EQ(CountLostOfKept(), named);
}

}  // namespace
}  // namespace sluice
