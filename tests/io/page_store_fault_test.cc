// The counter loop: a fixed trace, a fault at attempt 0, 1, 2 ... until the trace ends without it.
// Every time: whatever was not hit is exact to the byte, and whatever was hit gives its typed
// error.
#include <cerrno>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/faulty_engine.h"
#include "tests/support/page_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_under_test.h"

namespace sluice::io {
namespace {

using testing::FaultPlan;
using testing::FaultyEngine;
using testing::kAlways;
using testing::PageBuffer;
using testing::StoreKind;
using testing::StoreUnderTest;
using Code = absl::StatusCode;

constexpr SlotIndex kSlots = 6;
constexpr int kSteps = 72;
constexpr int kAttemptsMax = 4;
constexpr std::uint64_t kBelowTheBound = kAttemptsMax - 1;

enum class Counter { kNone, kShortIo, kRetries, kChecksumFailures };

struct FaultCase {
  std::string name;
  FaultPlan plan;
  /// What operations on the page that is hit may give; nullopt: nobody sees the fault.
  std::optional<Code> code;
  /// The number that grows when the fault strikes.
  Counter counter = Counter::kNone;
  std::uint64_t page_bytes = 4096;
};

std::ostream& operator<<(std::ostream& out, const FaultCase& fault) { return out << fault.name; }

FaultPlan Error(IoDirection direction, int error_number, std::uint64_t times) {
  return {.kind = FaultPlan::Kind::kError,
          .error_number = error_number,
          .times = times,
          .direction = direction};
}
FaultPlan Short(IoDirection direction, std::uint64_t moved, std::uint64_t times) {
  return {.kind = FaultPlan::Kind::kShort, .moved = moved, .times = times, .direction = direction};
}
FaultPlan Silent(IoDirection direction, FaultPlan::Kind kind, std::uint64_t times) {
  return {.kind = kind, .times = times, .direction = direction};
}

std::vector<FaultCase> ErrorCases() {
  constexpr auto kRead = IoDirection::kRead;
  constexpr auto kWrite = IoDirection::kWrite;
  constexpr auto kRetries = Counter::kRetries;
  return {
      {"ReadEintrPasses", Error(kRead, EINTR, kBelowTheBound), {}, kRetries},
      {"ReadEagainPasses", Error(kRead, EAGAIN, kBelowTheBound), {}, kRetries},
      {"ReadEnomemPasses", Error(kRead, ENOMEM, kBelowTheBound), {}, kRetries},
      {"ReadEioPasses", Error(kRead, EIO, kBelowTheBound), {}, kRetries},
      {"ReadEintrStays", Error(kRead, EINTR, kAlways), Code::kUnavailable, kRetries},
      {"ReadEagainStays", Error(kRead, EAGAIN, kAlways), Code::kUnavailable, kRetries},
      {"ReadEagainAtTheBound", Error(kRead, EAGAIN, kAttemptsMax), Code::kUnavailable, kRetries},
      {"ReadEioStays", Error(kRead, EIO, kAlways), Code::kDataLoss, kRetries},
      {"ReadEnodataStays", Error(kRead, ENODATA, kAlways), Code::kDataLoss, kRetries},
      {"ReadEbadfPasses", Error(kRead, EBADF, kBelowTheBound), {}, kRetries},
      {"ReadEbadfStays", Error(kRead, EBADF, kAlways), Code::kInternal, kRetries},
      {"WriteEintrPasses", Error(kWrite, EINTR, kBelowTheBound), {}, kRetries},
      {"WriteEagainPasses", Error(kWrite, EAGAIN, kBelowTheBound), {}, kRetries},
      {"WriteEagainStays", Error(kWrite, EAGAIN, kAlways), Code::kUnavailable, kRetries},
      {"WriteEioOnce", Error(kWrite, EIO, 1), Code::kInternal},
      {"WriteEioStays", Error(kWrite, EIO, kAlways), Code::kInternal},
      {"WriteEnospcOnce", Error(kWrite, ENOSPC, 1), Code::kResourceExhausted},
      {"WriteEnospcStays", Error(kWrite, ENOSPC, kAlways), Code::kResourceExhausted},
      {"WriteEdquot", Error(kWrite, EDQUOT, kAlways), Code::kResourceExhausted},
      {"WriteEfbig", Error(kWrite, EFBIG, kAlways), Code::kResourceExhausted},
      {"WritePartlyThenEnospc", Error(kWrite, ENOSPC, 1), Code::kResourceExhausted, {}, 16384},
  };
}

std::vector<FaultCase> ShortCases() {
  std::vector<FaultCase> cases;
  for (const IoDirection direction : {IoDirection::kRead, IoDirection::kWrite}) {
    const std::string verb = direction == IoDirection::kRead ? "Read" : "Write";
    const Code stopped = direction == IoDirection::kRead ? Code::kDataLoss : Code::kInternal;
    for (const std::uint64_t moved : {4096, 4097, 4700, 8192, 12799, 16383}) {
      const std::string name = verb + "Short" + std::to_string(moved);
      const Counter counter = Counter::kShortIo;
      cases.push_back({name + "Once", Short(direction, moved, 1), {}, counter, 16384});
      cases.push_back({name + "Always", Short(direction, moved, kAlways), {}, counter, 16384});
    }
    for (const std::uint64_t moved : {1, 512, 4095}) {
      const std::string name = verb + "Short" + std::to_string(moved);
      cases.push_back({name + "Once", Short(direction, moved, 1), {}, Counter::kRetries});
      cases.push_back(
          {name + "Always", Short(direction, moved, kAlways), stopped, Counter::kRetries});
    }
    cases.push_back({verb + "NothingOnce", Short(direction, 0, 1), stopped});
    cases.push_back({verb + "NothingAlways", Short(direction, 0, kAlways), stopped, {}, 16384});
  }
  return cases;
}

std::vector<FaultCase> SilentCases() {
  constexpr auto kSums = Counter::kChecksumFailures;
  using Kind = FaultPlan::Kind;
  return {
      {"ReadFlipOnce", Silent(IoDirection::kRead, Kind::kFlip, 1), {}, kSums},
      {"ReadFlipTwice", Silent(IoDirection::kRead, Kind::kFlip, 2), Code::kDataLoss, kSums},
      {"ReadFlipAlways", Silent(IoDirection::kRead, Kind::kFlip, kAlways), Code::kDataLoss, kSums},
      {"WriteLost", Silent(IoDirection::kWrite, Kind::kLostWrite, 1), Code::kDataLoss, {}},
      {"WriteTorn", Silent(IoDirection::kWrite, Kind::kTornWrite, 1), Code::kDataLoss, {}, 16384},
  };
}

std::vector<FaultCase> AllCases() {
  std::vector<FaultCase> all = ErrorCases();
  for (auto&& more : {ShortCases(), SilentCases()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Runs the trace and compares every step with a model of what each slot must hold.
class Trace {
 public:
  Trace(StoreUnderTest& store, std::uint64_t page_bytes) : store_(store), page_(page_bytes) {}

  void Run() {
    std::mt19937 random(20);
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      const auto slot = static_cast<SlotIndex>(random() % kSlots);
      const auto kind = random() % 8;
      if (kind < 4) Write(slot);
      if (kind >= 4 && kind < 7) Read(slot);
      if (kind == 7) Forget(slot);
    }
    for (SlotIndex slot = 0; slot < kSlots; ++slot) Read(slot);
  }

  /// Failed operations by slot and code.
  const std::map<std::pair<SlotIndex, Code>, int>& failures() const { return failures_; }

 private:
  PageIdentity IdentityOf(SlotIndex slot) const { return {3, slot, *held_.at(slot)}; }

  void Write(SlotIndex slot) {
    held_[slot] = ++generation_;
    page_.Fill(generation_);
    const absl::Status status = store_.Write(slot, IdentityOf(slot), page_.span());
    if (status.ok()) return;
    ++failures_[{slot, status.code()}];
    // The slot holds nothing now, whatever reached the disk.
    EXPECT_EQ(store_.Read(slot, IdentityOf(slot), page_.span()).code(), Code::kNotFound);
    held_[slot].reset();
  }

  void Read(SlotIndex slot) {
    if (!held_[slot].has_value()) return;
    page_.Clear();
    const absl::Status status = store_.Read(slot, IdentityOf(slot), page_.span());
    if (status.ok()) {
      EXPECT_TRUE(page_.Holds(*held_[slot])) << "wrong bytes accepted from slot " << slot;
    } else {
      ++failures_[{slot, status.code()}];
    }
  }

  void Forget(SlotIndex slot) {
    store_->Forget(slot);
    held_[slot].reset();
  }

  StoreUnderTest& store_;
  PageBuffer page_;
  std::uint64_t generation_ = 0;
  std::map<SlotIndex, std::optional<std::uint64_t>> held_;
  std::map<std::pair<SlotIndex, Code>, int> failures_;
};

std::uint64_t Value(Counter counter, const PageStoreStats& stats) {
  switch (counter) {
    case Counter::kShortIo:
      return stats.short_io;
    case Counter::kRetries:
      return stats.retries;
    case Counter::kChecksumFailures:
      return stats.checksum_failures;
    case Counter::kNone:
      return 1;
  }
  return 0;
}

class CounterLoop : public ::testing::TestWithParam<FaultCase> {
 protected:
  /// Whether the fault struck: false ends the loop.
  bool RunWithFaultAt(StoreKind kind, std::uint64_t operation) {
    FaultPlan plan = GetParam().plan;
    plan.operation = operation;
    const FaultyEngine* engine = nullptr;
    StoreUnderTest store({.kind = kind,
                          .options = {.page_bytes = GetParam().page_bytes,
                                      .slots = kSlots,
                                      .backoff = {.attempts_max = kAttemptsMax,
                                                  .first_pause = std::chrono::microseconds(1)}},
                          .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                            auto faulty = std::make_unique<FaultyEngine>(
                                std::move(upstream), plan, GetParam().page_bytes);
                            engine = faulty.get();
                            return faulty;
                          }});
    if (!store.unavailable().empty()) return false;
    Trace trace(store, GetParam().page_bytes);
    trace.Run();
    CheckFailures(trace, engine->struck());
    if (engine->struck()) {
      EXPECT_GT(Value(GetParam().counter, store->stats()), 0U);
    }
    return engine->struck();
  }

  void CheckFailures(const Trace& trace, bool struck) {
    const std::optional<Code> code = GetParam().code;
    if (!struck || !code.has_value()) {
      EXPECT_TRUE(trace.failures().empty()) << "a fault that must not be seen was";
      return;
    }
    // One page is hit, so one slot fails, in one way. Silent damage may be overwritten unseen.
    EXPECT_LE(trace.failures().size(), 1U);
    for (const auto& [failure, count] : trace.failures()) EXPECT_EQ(failure.second, *code);
    seen_ += trace.failures().empty() ? 0 : 1;
    if (*code != Code::kDataLoss) {
      EXPECT_EQ(trace.failures().size(), 1U);
    }
  }

  void RunLoop(StoreKind kind, std::uint64_t stride) {
    std::uint64_t operation = 0;
    while (!HasFailure()) {
      SCOPED_TRACE(testing::ToString(kind) + ", fault at attempt " + std::to_string(operation));
      if (!RunWithFaultAt(kind, operation)) break;
      operation += stride;
    }
    const bool ran = operation > 0;
    if (kind == StoreKind::kMemory) {
      EXPECT_GE(operation, 20U) << "the trace is longer than that";
    }
    if (ran && GetParam().code.has_value()) {
      EXPECT_GT(seen_, 0U) << "the error was never seen";
    }
  }

 private:
  std::uint64_t seen_ = 0;
};

TEST(RetryTest, OtherRequestsPassOneThatWaitsToBeTriedAgain) {
  FaultPlan plan = Error(IoDirection::kRead, EAGAIN, 1);
  plan.operation = 0;
  StoreUnderTest store({.options = {.page_bytes = 4096,
                                    .slots = 2,
                                    .backoff = {.first_pause = std::chrono::milliseconds(300)}},
                        .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                          return std::make_unique<FaultyEngine>(std::move(upstream), plan, 4096);
                        }});
  PageBuffer first(4096);
  PageBuffer second(4096);
  ASSERT_THAT(store.Write(0, {1, 0, 1}, first.span()), testing::IsOk());
  ASSERT_THAT(store.Write(1, {1, 1, 1}, second.span()), testing::IsOk());
  std::promise<absl::Status> done;
  std::future<absl::Status> read = done.get_future();
  store->Read(0, {1, 0, 1}, first.span(), [&](absl::Status status) { done.set_value(status); });
  EXPECT_THAT(store.Read(1, {1, 1, 1}, second.span()), testing::IsOk());
  EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_THAT(read.get(), testing::IsOk());
}

TEST_P(CounterLoop, OnMemoryAtEveryAttempt) { RunLoop(StoreKind::kMemory, 1); }
TEST_P(CounterLoop, OnIoUringAtSomeAttempts) { RunLoop(StoreKind::kUring, 11); }
TEST_P(CounterLoop, OnThreadsAtSomeAttempts) { RunLoop(StoreKind::kThreads, 13); }

INSTANTIATE_TEST_SUITE_P(Faults,
                         CounterLoop,
                         ::testing::ValuesIn(AllCases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice::io
