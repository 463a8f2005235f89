// A store without O_DIRECT: the page cache is a stop on the way, not a place to stay.
#include <sys/mman.h>

#include <cerrno>
#include <future>
#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/engine/blocking_engine.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/faulty_engine.h"
#include "tests/support/store/memory_engine.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/store/store_under_test.h"

namespace sluice::io {
namespace {

using testing::FaultPlan;
using testing::IsOk;
using testing::IsStatus;
using testing::PageBuffer;
using testing::StoreKind;
using testing::StoreUnderTest;
using Code = absl::StatusCode;

constexpr std::uint64_t kBufferedPage = std::uint64_t{64} << 10;
constexpr SlotIndex kBufferedSlots = 64;

/// Bytes of the file that the page cache holds.
std::uint64_t CachedBytes(int fd, std::uint64_t bytes) {
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_NE(map, MAP_FAILED);
  std::vector<unsigned char> resident(bytes / 4096);
  EXPECT_EQ(mincore(map, bytes, resident.data()), 0);
  munmap(map, bytes);
  std::uint64_t cached = 0;
  for (const unsigned char page : resident) cached += (page & 1) * 4096;
  return cached;
}

class BufferedStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  PageStoreOptions Options() const {
    return {.page_bytes = kBufferedPage,
            .slots = kBufferedSlots,
            .io_uring = GetParam() ? Use::kOff : Use::kAuto};
  }
};

TEST_P(BufferedStoreTest, TheCacheHoldsNothingOfWhatIsDone) {
  StoreUnderTest store({.kind = StoreKind::kBuffered, .options = Options()});
  PageBuffer page(kBufferedPage);
  for (SlotIndex slot = 0; slot < kBufferedSlots; ++slot) {
    page.Fill(slot);
    ASSERT_THAT(store.Write(slot, {1, slot, 1}, page.span()), IsOk());
  }
  EXPECT_EQ(CachedBytes(store.fd(), kBufferedPage * kBufferedSlots), 0u);
  for (SlotIndex slot = 0; slot < kBufferedSlots; ++slot) {
    ASSERT_THAT(store.Read(slot, {1, slot, 1}, page.span()), IsOk());
    EXPECT_TRUE(page.Holds(slot)) << slot;
  }
  EXPECT_EQ(CachedBytes(store.fd(), kBufferedPage * kBufferedSlots), 0u);
}

/// A plain write to the page cache would never hear of such an error.
TEST_P(BufferedStoreTest, AnErrorOfTheMediumIsOneOfTheWrite) {
  for (const auto& [error, code] :
       {std::pair{EIO, Code::kInternal}, std::pair{ENOSPC, Code::kResourceExhausted}}) {
    const FaultPlan plan{.kind = FaultPlan::Kind::kError,
                         .error_number = error,
                         .operation = 1,
                         .times = testing::kAlways,
                         .direction = IoDirection::kWriteBack};
    StoreUnderTest store({.kind = StoreKind::kBuffered,
                          .options = Options(),
                          .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                            return std::make_unique<testing::FaultyEngine>(
                                std::move(upstream), plan, kBufferedPage);
                          }});
    PageBuffer page(kBufferedPage);
    ASSERT_THAT(store.Write(0, {1, 0, 1}, page.span()), IsOk());
    EXPECT_THAT(store.Write(1, {1, 1, 1}, page.span()), testing::HasCode(code));
    EXPECT_THAT(store.Read(1, {1, 1, 1}, page.span()), testing::HasCode(Code::kNotFound));
    EXPECT_THAT(store.Read(0, {1, 0, 1}, page.span()), IsOk());
  }
}

/// A medium whose errors are told as the kernel tells them: once, to whoever of the file asks next.
class ForgetfulMedium {
 public:
  std::int64_t Perform(const IoCommand& command) {
    if (command.direction == IoDirection::kWriteBack) return -std::exchange(error_, 0);
    if (command.direction != IoDirection::kWrite) return file_.Perform(command);
    if (held_ != nullptr && command.offset == 0) std::exchange(held_, nullptr)->wait();
    if (command.offset != kBufferedPage || refusals_ == 0) return file_.Perform(command);
    --refusals_;
    error_ = error_number_;
    return static_cast<std::int64_t>(command.bytes);  // the page cache goes this far
  }
  /// The next `times` pages for slot 1 reach the page cache, but not the medium.
  void Refuse(int times, int error_number) {
    refusals_ = times;
    error_number_ = error_number;
  }
  /// The next write of slot 0 waits.
  void Hold(std::latch* latch) { held_ = latch; }

 private:
  testing::MemoryFile file_{kBufferedPage * kBufferedSlots};
  int refusals_ = 0;
  int error_number_ = 0;
  int error_ = 0;  ///< error that no caller has heard yet
  std::latch* held_ = nullptr;
};

class ErrorToldOnceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const SlotIndex slot : {0, 1}) ASSERT_THAT(Write(slot, 1), IsOk());
  }
  absl::Status Write(SlotIndex slot, std::uint64_t generation) {
    PageBuffer page(kBufferedPage);
    page.Fill(10 * generation + slot);
    return store_.Write(slot, {1, slot, generation}, page.span());
  }
  /// Slot 0 is the first to ask for errors, once both are in the page cache.
  std::pair<absl::Status, absl::Status> WriteBoth(std::uint64_t generation) {
    std::latch held(1);
    medium_.Hold(&held);
    PageBuffer page(kBufferedPage);
    page.Fill(10 * generation);
    const auto done = std::make_shared<std::promise<absl::Status>>();
    store_->Write(0, {1, 0, generation}, page.span(), [done](absl::Status status) {
      done->set_value(std::move(status));
    });
    PageBuffer second(kBufferedPage);
    second.Fill(10 * generation + 1);
    const auto second_done = std::make_shared<std::promise<absl::Status>>();
    store_->Write(1, {1, 1, generation}, second.span(), [second_done](absl::Status status) {
      second_done->set_value(std::move(status));
    });
    held.count_down();
    return {done->get_future().get(), second_done->get_future().get()};
  }
  void ExpectHolds(SlotIndex slot, std::uint64_t generation) {
    PageBuffer page(kBufferedPage);
    EXPECT_THAT(store_.Read(slot, {1, slot, generation}, page.span()), IsOk());
    EXPECT_TRUE(page.Holds(10 * generation + slot)) << slot;
  }

  ForgetfulMedium medium_;  ///< used by one thread, and by the test while that is idle
  StoreUnderTest store_{{.kind = StoreKind::kBuffered,
                         .options = {.page_bytes = kBufferedPage, .slots = kBufferedSlots},
                         .wrap = [this](std::unique_ptr<IoEngine>) -> std::unique_ptr<IoEngine> {
                           auto engine = BlockingEngine::Create(
                               {.name = "forgetful", .threads = 1, .cpus = {}},
                               [this](const IoCommand& c) { return medium_.Perform(c); });
                           return *std::move(engine);
                         }}};
};

TEST_F(ErrorToldOnceTest, BothPagesInFlightAtAnErrorAreWrittenAgain) {
  medium_.Refuse(1, EIO);
  const auto [first, second] = WriteBoth(2);
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(second, IsOk());
  ExpectHolds(0, 2);
  ExpectHolds(1, 2);
}

TEST_F(ErrorToldOnceTest, AnErrorThatStaysIsOnlyThatOfItsOwnPage) {
  medium_.Refuse(1000, EIO);
  const auto [first, second] = WriteBoth(2);
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(second, IsStatus(Code::kInternal, "EIO"));
  ExpectHolds(0, 2);
  PageBuffer page(kBufferedPage);
  EXPECT_THAT(store_.Read(1, {1, 1, 2}, page.span()), testing::HasCode(Code::kNotFound));
  medium_.Refuse(0, 0);
  EXPECT_THAT(Write(1, 3), IsOk());
  ExpectHolds(1, 3);
}

TEST_F(ErrorToldOnceTest, AskingTwiceDoesNotMakeItGood) {
  for (const int error : {ENOMEM, EAGAIN, EINTR}) {
    medium_.Refuse(1, error);
    EXPECT_THAT(Write(1, 2), IsOk());
    ExpectHolds(1, 2);
    ASSERT_THAT(Write(1, 1), IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, BufferedStoreTest, ::testing::Bool(), [](const auto& test) {
  return test.param ? "Threads" : "Default";
});

}  // namespace
}  // namespace sluice::io
