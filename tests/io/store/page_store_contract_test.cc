// Promises of every page store, for each engine.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "io/store/slot_table.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/gated_engine.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/store/store_under_test.h"

namespace sluice::io {
namespace {

using testing::GatedEngine;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::PageBuffer;
using testing::StoreKind;
using testing::StoreUnderTest;

constexpr std::uint64_t kPage = 16384;
constexpr SlotIndex kSlots = 16;

class PageStoreContract : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override { Open({.page_bytes = kPage, .slots = kSlots}); }

  void Open(const PageStoreOptions& options) { OpenSpec({.options = options, .wrap = nullptr}); }
  /// No I/O happens until gate().Open().
  void OpenGated(const PageStoreOptions& options) {
    OpenSpec({.options = options, .wrap = [this](std::unique_ptr<IoEngine> engine) {
                auto gated = std::make_unique<GatedEngine>(std::move(engine));
                gate_ = gated.get();
                return gated;
              }});
  }
  void OpenSpec(testing::StoreSpec spec) {
    spec.kind = GetParam();
    store_ = std::make_unique<StoreUnderTest>(spec);
    if (!store_->unavailable().empty()) GTEST_SKIP() << store_->unavailable();
  }
  StoreUnderTest& store() { return *store_; }
  GatedEngine& gate() { return *gate_; }

  std::future<absl::Status> StartWrite(SlotIndex slot,
                                       const PageIdentity& identity,
                                       const PageBuffer& page) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    store()->Write(slot, identity, page.span(), [done](absl::Status status) {
      done->set_value(std::move(status));
    });
    return done->get_future();
  }

  std::future<absl::Status> StartRead(SlotIndex slot,
                                      const PageIdentity& identity,
                                      PageBuffer& page) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    store()->Read(slot, identity, page.span(), [done](absl::Status status) {
      done->set_value(std::move(status));
    });
    return done->get_future();
  }

  void WritePage(SlotIndex slot, const PageIdentity& identity, std::uint64_t seed) {
    PageBuffer page(kPage);
    page.Fill(seed);
    ASSERT_THAT(store().Write(slot, identity, page.span()), IsOk());
  }
  absl::Status ReadPage(SlotIndex slot, const PageIdentity& identity) {
    PageBuffer page(kPage);
    return store().Read(slot, identity, page.span());
  }
  void ExpectPage(SlotIndex slot, const PageIdentity& identity, std::uint64_t seed) {
    PageBuffer page(kPage);
    ASSERT_THAT(store().Read(slot, identity, page.span()), IsOk());
    EXPECT_TRUE(page.Holds(seed)) << "slot " << slot;
  }

 private:
  std::unique_ptr<StoreUnderTest> store_;
  GatedEngine* gate_ = nullptr;
};

TEST_P(PageStoreContract, ReadReturnsWhatWasWrittenInEverySlot) {
  for (SlotIndex slot = 0; slot < kSlots; ++slot) WritePage(slot, {1, slot, 1}, slot);
  for (SlotIndex slot = 0; slot < kSlots; ++slot) ExpectPage(slot, {1, slot, 1}, slot);
  EXPECT_EQ(store()->stats().writes, kSlots);
  EXPECT_EQ(store()->stats().reads, kSlots);
}

// Hashes on other threads would keep the caller or the disk waiting.
TEST_P(PageStoreContract, OnlyWorkersHash) {
  WritePage(0, {1, 0, 1}, 7);
  using Semaphore = std::counting_semaphore<StoreUnderTest::kWorkers>;
  const auto begun = std::make_shared<Semaphore>(0);  // the workers outlive the test
  const auto may_end = std::make_shared<Semaphore>(0);
  for (int i = 0; i < StoreUnderTest::kWorkers; ++i) {
    store().workers().Submit([begun, may_end] {
      begun->release();
      may_end->acquire();
    });
  }
  for (int i = 0; i < StoreUnderTest::kWorkers; ++i) begun->acquire();
  PageBuffer written(kPage);
  written.Fill(8);
  PageBuffer read(kPage);
  auto write_done = StartWrite(1, {1, 1, 1}, written);
  auto read_done = StartRead(0, {1, 0, 1}, read);
  // The bytes have long been moved by then.
  EXPECT_EQ(read_done.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(write_done.wait_for(std::chrono::milliseconds(1)), std::future_status::timeout);
  may_end->release(StoreUnderTest::kWorkers);
  EXPECT_THAT(write_done.get(), IsOk());
  EXPECT_THAT(read_done.get(), IsOk());
  EXPECT_TRUE(read.Holds(7));
}

TEST_P(PageStoreContract, OverwriteReplacesThePage) {
  WritePage(3, {1, 2, 1}, 10);
  WritePage(3, {1, 2, 2}, 11);
  ExpectPage(3, {1, 2, 2}, 11);
}

TEST_P(PageStoreContract, EmptySlotIsNotFound) {
  EXPECT_THAT(ReadPage(5, {1, 2, 3}), IsStatus(absl::StatusCode::kNotFound, "slot 5"));
}

TEST_P(PageStoreContract, ForgottenSlotIsNotFound) {
  WritePage(5, {1, 2, 3}, 1);
  store()->Forget(5);
  EXPECT_THAT(ReadPage(5, {1, 2, 3}), HasCode(absl::StatusCode::kNotFound));
}

TEST_P(PageStoreContract, AnotherIdentityIsDataLossThatNamesBoth) {
  WritePage(5, {7, 8, 9}, 1);
  for (const PageIdentity& other : {PageIdentity{6, 8, 9}, {7, 7, 9}, {7, 8, 10}, {7, 8, 8}}) {
    const absl::Status status = ReadPage(5, other);
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kDataLoss, "slot 5"));
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kDataLoss, ToString(other)));
    EXPECT_THAT(status,
                IsStatus(absl::StatusCode::kDataLoss, "holds segment 7 page 8 generation 9"));
  }
  ExpectPage(5, {7, 8, 9}, 1);
}

TEST_P(PageStoreContract, FlippedByteIsDataLossAfterOneMoreRead) {
  WritePage(2, {1, 2, 3}, 1);
  for (const std::size_t at : {std::size_t{0}, kPage / 2, kPage - 1}) {
    const std::uint64_t failures = store()->stats().checksum_failures;
    store().FlipByte(2, at);
    const absl::Status status = ReadPage(2, {1, 2, 3});
    EXPECT_THAT(status,
                IsStatus(absl::StatusCode::kDataLoss, "slot 2: segment 1 page 2 generation 3"));
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kDataLoss, "checksum"));
    EXPECT_EQ(store()->stats().checksum_failures, failures + 2);
    store().FlipByte(2, at);
    ExpectPage(2, {1, 2, 3}, 1);
  }
}

TEST_P(PageStoreContract, SwappedSlotsAreDataLoss) {
  WritePage(2, {1, 2, 3}, 1);
  WritePage(4, {1, 4, 3}, 2);
  store().SwapSlots(2, 4);
  EXPECT_THAT(ReadPage(2, {1, 2, 3}), HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadPage(4, {1, 4, 3}), HasCode(absl::StatusCode::kDataLoss));
}

TEST_P(PageStoreContract, StaleBytesOfAnEarlierGenerationAreDataLoss) {
  WritePage(2, {1, 2, 1}, 1);
  WritePage(3, {1, 2, 2}, 2);
  // The swap makes slot 3 look as if its write had been lost: it holds the generation before.
  store().SwapSlots(2, 3);
  EXPECT_THAT(ReadPage(3, {1, 2, 2}), HasCode(absl::StatusCode::kDataLoss));
}

TEST_P(PageStoreContract, TruncatedFileIsDataLossForWhatItHeldOnly) {
  WritePage(2, {1, 2, 3}, 1);
  WritePage(9, {1, 9, 3}, 2);
  WritePage(15, {1, 15, 3}, 3);
  store().Truncate(kPage + 4700);  // pages written in a row are neighbours
  EXPECT_THAT(ReadPage(15, {1, 15, 3}), IsStatus(absl::StatusCode::kDataLoss, "truncated"));
  EXPECT_THAT(ReadPage(9, {1, 9, 3}), IsStatus(absl::StatusCode::kDataLoss, "truncated"));
  ExpectPage(2, {1, 2, 3}, 1);
}

TEST_P(PageStoreContract, ADamagedSlotCanBeWrittenAgain) {
  WritePage(2, {1, 2, 3}, 1);
  store().FlipByte(2, 100);
  EXPECT_THAT(ReadPage(2, {1, 2, 3}), HasCode(absl::StatusCode::kDataLoss));
  WritePage(2, {1, 2, 4}, 5);
  ExpectPage(2, {1, 2, 4}, 5);
  EXPECT_EQ(store()->stats().retired, 1U) << "the page is in another place";
}

TEST_P(PageStoreContract, WrongSlotSizeAndAlignmentAreInvalid) {
  PageBuffer page(2 * kPage);
  const auto whole = page.span();
  const auto invalid = [](const char* text) {
    return IsStatus(absl::StatusCode::kInvalidArgument, text);
  };
  EXPECT_THAT(store().Write(kSlots, {}, whole.first(kPage)), invalid("16 slots"));
  EXPECT_THAT(store().Read(kSlots, {}, whole.first(kPage)), invalid("16 slots"));
  EXPECT_THAT(store().Write(0, {}, whole.first(kPage - 4096)), invalid("12288 bytes"));
  EXPECT_THAT(store().Read(0, {}, whole), invalid("32768 bytes"));
  EXPECT_THAT(store().Write(0, {}, whole.subspan(512, kPage)), invalid("not aligned"));
  EXPECT_THAT(store().Read(0, {}, whole.subspan(4, kPage)), invalid("not aligned"));
  EXPECT_THAT(ReadPage(0, {}), HasCode(absl::StatusCode::kNotFound));
}

TEST_P(PageStoreContract, CallbacksMaySubmitBeyondTheBoundAndDestructionDrainsThem) {
  Open({.page_bytes = kPage, .slots = kSlots, .queue_depth = 2, .operations_max = 1});
  PageStore& live = *store();
  std::vector<PageBuffer> pages;
  for (SlotIndex slot = 0; slot < kSlots; ++slot) pages.emplace_back(kPage);
  std::atomic<int> verified = 0;
  for (SlotIndex slot = 0; slot < kSlots; ++slot) {
    pages[slot].Fill(slot);
    const PageIdentity identity{1, slot, 1};
    // Write, then read back from the write's callback, then write and read again from the read's.
    live.Write(slot, identity, pages[slot].span(), [&, slot, identity](absl::Status wrote) {
      ASSERT_THAT(wrote, IsOk());
      live.Read(slot, identity, pages[slot].span(), [&, slot](absl::Status read) {
        ASSERT_THAT(read, IsOk());
        live.Write(slot, {2, slot, 2}, pages[slot].span(), [&, slot](absl::Status again) {
          ASSERT_THAT(again, IsOk());
          if (pages[slot].Holds(slot)) ++verified;
        });
      });
    });
  }
  store().Close();
  EXPECT_EQ(verified, kSlots);
}

TEST_P(PageStoreContract, RefusalInACallbackIsAnsweredThere) {
  std::promise<absl::StatusCode> answer;
  PageBuffer page(kPage);
  store()->Read(0, {}, page.span(), [&](absl::Status) {
    store()->Read(
        99, {}, page.span(), [&](absl::Status status) { answer.set_value(status.code()); });
  });
  EXPECT_EQ(answer.get_future().get(), absl::StatusCode::kInvalidArgument);
  store().Close();
}

TEST_P(PageStoreContract, ASlotInUseIsNotWritten) {
  OpenGated({.page_bytes = kPage, .slots = kSlots});
  PageBuffer first(kPage);
  PageBuffer second(kPage);
  first.Fill(1);
  second.Fill(2);
  std::future<absl::Status> writing = StartWrite(0, {1, 0, 1}, first);
  EXPECT_THAT(store().Write(0, {1, 0, 2}, second.span()),
              IsStatus(absl::StatusCode::kFailedPrecondition, "slot 0: written while a write"));
  EXPECT_THAT(ReadPage(0, {1, 0, 1}), HasCode(absl::StatusCode::kNotFound));
  gate().Open();
  EXPECT_THAT(writing.get(), IsOk());
  ExpectPage(0, {1, 0, 1}, 1);
}

TEST_P(PageStoreContract, ForgettingAWriteInFlightLeavesTheSlotEmpty) {
  OpenGated({.page_bytes = kPage, .slots = kSlots});
  PageBuffer page(kPage);
  std::future<absl::Status> writing = StartWrite(0, {1, 0, 1}, page);
  store()->Forget(0);
  gate().Open();
  EXPECT_THAT(writing.get(), IsOk());
  EXPECT_THAT(ReadPage(0, {1, 0, 1}), HasCode(absl::StatusCode::kNotFound));
}

TEST_P(PageStoreContract, HastenReachesTheWriteOfTheSlot) {
  OpenGated({.page_bytes = kPage, .slots = kSlots});
  PageBuffer page(kPage);
  std::future<absl::Status> writing = StartWrite(3, {1, 3, 1}, page);
  store()->Hasten(3);
  EXPECT_EQ(gate().hastened(), (std::vector{std::pair{0 * kPage, kPage}}));
  gate().Open();
  EXPECT_THAT(writing.get(), IsOk());
}

TEST_P(PageStoreContract, CallsBeyondTheBoundWaitForRoom) {
  OpenGated({.page_bytes = kPage, .slots = kSlots, .operations_max = 2});
  PageBuffer page(kPage);
  std::vector<std::future<absl::Status>> writing;
  for (SlotIndex slot = 0; slot < 2; ++slot) {
    writing.push_back(StartWrite(slot, {1, slot, 1}, page));
  }
  gate().WaitForHeld(2);
  std::binary_semaphore admitted(0);
  std::thread third([&] {
    std::future<absl::Status> late = StartWrite(2, {1, 2, 1}, page);
    admitted.release();
    EXPECT_THAT(late.get(), IsOk());
  });
  EXPECT_FALSE(admitted.try_acquire_for(std::chrono::milliseconds(300)))
      << "a third operation was admitted";
  gate().Open();
  third.join();
  for (auto& status : writing) EXPECT_THAT(status.get(), IsOk());
}

TEST_P(PageStoreContract, DestructionWaitsForWhatIsInFlight) {
  OpenGated({.page_bytes = kPage, .slots = kSlots});
  PageBuffer page(kPage);
  std::vector<std::future<absl::Status>> writing;
  for (SlotIndex slot = 0; slot < kSlots; ++slot) {
    writing.push_back(StartWrite(slot, {1, slot, 1}, page));
  }
  gate().WaitForHeld(kSlots);
  GatedEngine& engine = gate();
  std::thread opener([&] { engine.Open(); });
  store().Close();
  for (auto& status : writing) {
    EXPECT_EQ(status.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_THAT(status.get(), IsOk());
  }
  opener.join();
}

TEST_P(PageStoreContract, ManyOperationsAtOnceMatchAModel) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Open({.page_bytes = kPage, .slots = kSlots, .queue_depth = 4, .operations_max = 9});
  std::vector<std::uint64_t> generation(kSlots, 0);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::unique_ptr<PageBuffer>> pages;
    std::vector<std::future<absl::Status>> done;
    std::vector<SlotIndex> read;
    for (SlotIndex slot = 0; slot < kSlots; ++slot) {
      auto promise = std::make_shared<std::promise<absl::Status>>();
      done.push_back(promise->get_future());
      auto answer = [promise](absl::Status status) { promise->set_value(std::move(status)); };
      pages.push_back(std::make_unique<PageBuffer>(kPage));
      if (generation[slot] > 0 && random() % 2 == 0) {
        read.push_back(slot);
        store()->Read(slot, {1, slot, generation[slot]}, pages.back()->span(), answer);
      } else {
        pages.back()->Fill(slot * 1000 + ++generation[slot]);
        store()->Write(slot, {1, slot, generation[slot]}, pages.back()->span(), answer);
      }
    }
    for (auto& status : done) ASSERT_THAT(status.get(), IsOk());
    for (SlotIndex slot : read) ASSERT_TRUE(pages[slot]->Holds(slot * 1000 + generation[slot]));
  }
}

TEST_P(PageStoreContract, SlotsOfSeveralFilesAreAllDifferent) {
  Open({.page_bytes = kPage, .slots = kSlots, .files = 5});
  if (IsSkipped()) return;
  for (SlotIndex slot = 0; slot < kSlots; ++slot) WritePage(slot, {1, slot, 1}, slot);
  for (SlotIndex slot = 0; slot < kSlots; ++slot) ExpectPage(slot, {1, slot, 1}, slot);
}

TEST_P(PageStoreContract, WithoutItsDirectoryAllPagesAreStillWrittenAndRead) {
  Open({.page_bytes = kPage, .slots = kSlots, .files = 2});
  if (IsSkipped()) return;
  for (SlotIndex slot = 0; slot < kSlots; slot += 2) WritePage(slot, {1, slot, 1}, slot);
  ASSERT_EQ(store().RemoveDirectory(), "");
  for (SlotIndex slot = 1; slot < kSlots; slot += 2) WritePage(slot, {1, slot, 1}, slot);
  for (SlotIndex slot = 0; slot < kSlots; ++slot) ExpectPage(slot, {1, slot, 1}, slot);
  for (SlotIndex slot = 0; slot < kSlots; ++slot) WritePage(slot, {1, slot, 2}, kSlots + slot);
  for (SlotIndex slot = 0; slot < kSlots; ++slot) ExpectPage(slot, {1, slot, 2}, kSlots + slot);
}

/// Statuses that a child of fork hears from its parent's store. A child that waits for ever is
/// ended.
std::string AskInChild(PageStore& store, const PageBuffer& given) {
  return testing::RunInChild([&] {
    alarm(10);
    std::string heard;
    const auto note = [&heard](const absl::Status& status) {
      heard += absl::StatusCodeToString(status.code()) + " ";
    };
    PageBuffer page(kPage);
    store.Write(3, {1, 3, 9}, given.span(), note);
    store.Read(0, {1, 0, 1}, page.span(), note);
    return heard;
  });
}

TEST_P(PageStoreContract, AChildOfForkIsRefusedAndChangesNothing) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  std::vector<PageBuffer> pages;
  for (SlotIndex slot = 0; slot < kSlots; ++slot) pages.emplace_back(kPage).Fill(slot);
  for (std::uint64_t round = 1; round <= 4; ++round) {
    std::vector<std::future<absl::Status>> written;
    for (SlotIndex slot = 0; slot < kSlots; ++slot) {
      written.push_back(StartWrite(slot, {1, slot, round}, pages[slot]));
    }
    EXPECT_EQ(AskInChild(*store(), pages[5]), "FAILED_PRECONDITION FAILED_PRECONDITION ");
    for (auto& status : written) ASSERT_THAT(status.get(), IsOk());
    for (SlotIndex slot = 0; slot < kSlots; ++slot) ExpectPage(slot, {1, slot, round}, slot);
  }
}

TEST_P(PageStoreContract, StatsNameTheEngine) {
  const PageStoreStats stats = store()->stats();
  const StoreKind kind = GetParam();
  EXPECT_EQ(stats.direct, kind == StoreKind::kUring || kind == StoreKind::kThreads);
  EXPECT_EQ(stats.direct_reason.empty(), stats.direct);
  EXPECT_EQ(stats.engine_reason.empty(), stats.engine == "io_uring");
  if (kind == StoreKind::kThreads) {
    EXPECT_EQ(stats.engine, "threads");
  }
  if (kind == StoreKind::kMemory) {
    EXPECT_EQ(stats.engine, "memory");
  }
  if (kind == StoreKind::kUring) {
    EXPECT_EQ(stats.engine, "io_uring");
  }
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         PageStoreContract,
                         ::testing::Values(StoreKind::kUring,
                                           StoreKind::kThreads,
                                           StoreKind::kBuffered,
                                           StoreKind::kMemory),
                         [](const auto& test) { return testing::ToString(test.param); });

}  // namespace
}  // namespace sluice::io
