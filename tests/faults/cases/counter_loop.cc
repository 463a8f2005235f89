#include "tests/faults/cases/counter_loop.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/faults/virtual/watchdog.h"

namespace sluice::faults {
namespace {

using core::TicketFailure;

constexpr std::uint64_t kTraceSeed = 20;
constexpr std::uint32_t kTraceSteps = 500;
/// Orders of completion that are tried.
constexpr std::uint64_t kSeeds = 600;
/// Limit of attempts in a run, since real media do not repeat themselves.
constexpr std::uint64_t kAttemptsMax = 100'000;
/// A run on real media takes a tenth of a second.
constexpr std::chrono::minutes kRunMax{2};
/// Number of strikes after which every possible consequence has been seen.
constexpr std::uint64_t kStrikesThatShow = 8;

/// Sums over the runs of one loop.
struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t strikes = 0;
  std::uint64_t store_failures = 0;
  std::uint64_t ops_full = 0;
  std::uint64_t ops_lost = 0;
  std::uint64_t reproduced = 0;
  std::uint64_t passed_while_held = 0;
  std::uint64_t retired = 0;
  std::uint64_t moved = 0;
  std::uint64_t fenced = 0;
};

std::uint64_t Value(Counter counter, const io::PageStoreStats& stats) {
  switch (counter) {
    case Counter::kNone:
      return 1;
    case Counter::kShortIo:
      return stats.short_io;
    case Counter::kRetries:
      return stats.retries;
    case Counter::kChecksumFailures:
      return stats.checksum_failures;
  }
  return 0;
}

std::uint64_t Failures(const RunOutcome& outcome, TicketFailure reason) {
  const auto found = outcome.op_failures.find(reason);
  return found == outcome.op_failures.end() ? 0 : found->second;
}

bool Failed() { return ::testing::Test::HasFailure(); }

/// A check that fails inside the code under test stops the program: say first in which run.
class PlaceOnAbort {
 public:
  explicit PlaceOnAbort(std::string place) : place_(std::move(place)) {
    base::SetCheckObserver(&PlaceOnAbort::Print, this);
  }
  ~PlaceOnAbort() { base::SetCheckObserver(nullptr, nullptr); }

 private:
  static void Print(void* self, const char*) {
    std::fprintf(stderr, "%s\n", static_cast<PlaceOnAbort*>(self)->place_.c_str());
  }

  const std::string place_;
};

class Loop {
 public:
  Loop(const FaultCase& fault, Medium medium) : fault_(fault), medium_(medium) {}

  void Run(const LoopStride& stride);

 private:
  RunOutcome RunAt(std::uint64_t number);
  bool CheckAt(std::uint64_t number);
  void CheckUntouched(const RunOutcome& outcome) const;
  void CheckStruck(const RunOutcome& outcome) const;
  void CheckReproduced(const RunOutcome& outcome) const;
  void CheckOps(const RunOutcome& outcome) const;
  void CheckRemedies(const RunOutcome& outcome) const;
  void Count(const RunOutcome& outcome);
  void CheckTotals() const;
  void Print(const LoopStride& stride, std::uint64_t attempts) const;
  std::uint64_t RunVirtual(const LoopStride& stride);
  std::uint64_t RunReal(const LoopStride& stride);

  const FaultCase& fault_;
  const Medium medium_;
  const Trace trace_ = MakeTrace(kTraceSeed, kTraceSteps);
  Totals totals_;
};

void Loop::Run(const LoopStride& stride) {
  const std::uint64_t attempts = medium_ == Medium::kVirtual ? RunVirtual(stride) : RunReal(stride);
  if (Failed() || ::testing::Test::IsSkipped()) return;
  Print(stride, attempts);
  CheckTotals();
}

/// The attempts of a run without the fault; with it, a run is the same up to there.
std::uint64_t Loop::RunVirtual(const LoopStride& stride) {
  if (fault_.seeds) {
    for (std::uint64_t n = stride.first; n < kSeeds && !Failed(); n += stride.stride) CheckAt(n);
    return kSeeds;
  }
  const std::uint64_t attempts = RunAt(UINT64_MAX).attempts;
  for (std::uint64_t n = stride.first; n < attempts; n += stride.stride) {
    EXPECT_TRUE(CheckAt(n)) << "attempt " << n << " of " << attempts << " was not reached";
    if (Failed()) return attempts;
  }
  EXPECT_TRUE(CheckAt(attempts - 1)) << "the last attempt was not reached";
  EXPECT_FALSE(CheckAt(attempts)) << "the trace goes on after its last attempt";
  return attempts;
}

std::uint64_t Loop::RunReal(const LoopStride& stride) {
  std::uint64_t n = stride.first;
  while (n < kAttemptsMax && CheckAt(n) && !Failed()) n += stride.stride;
  return n;
}

RunOutcome Loop::RunAt(std::uint64_t number) {
  RunOptions options = fault_.options;
  options.medium = medium_;
  options.plan.operation = fault_.seeds ? UINT64_MAX : number;
  if (fault_.seeds) options.disk.seed = number + 1;
  if (options.disk.refusal.times > 0) {
    options.plan.operation = UINT64_MAX;
    options.disk.refusal.submission = number;
  }
  return RunTrace(trace_, options);
}

/// Whether the fault struck.
bool Loop::CheckAt(std::uint64_t number) {
  const std::string place = fmt::format("{} on {}, fault at attempt {} (trace seed {})",
                                        fault_.name,
                                        ToString(medium_),
                                        number,
                                        kTraceSeed);
  SCOPED_TRACE(place);
  const PlaceOnAbort announce(place);
  // A limit of steps ends a run in virtual time.
  std::optional<Watchdog> watchdog;
  if (medium_ != Medium::kVirtual) watchdog.emplace(place, kRunMax);
  const RunOutcome outcome = RunAt(number);
  if (!outcome.unavailable.empty()) {
    [&] { GTEST_SKIP() << outcome.unavailable; }();
    return false;
  }
  EXPECT_EQ(outcome.violation, "");
  outcome.struck ? CheckStruck(outcome) : CheckUntouched(outcome);
  Count(outcome);
  return outcome.struck;
}

void Loop::CheckUntouched(const RunOutcome& outcome) const {
  EXPECT_TRUE(outcome.store_failures.empty()) << "the store failed without a fault";
  EXPECT_TRUE(outcome.op_failures.empty()) << "an op failed without a fault";
  EXPECT_EQ(outcome.pages_reproduced, 0U) << "a page was lost without a fault";
  EXPECT_EQ(outcome.stats.retired + outcome.moved + outcome.fenced, 0U) << "nothing had failed";
}

void Loop::CheckStruck(const RunOutcome& outcome) const {
  for (const auto& [code, count] : outcome.store_failures) {
    const std::string found = absl::StatusCodeToString(code);
    if (!fault_.code.has_value()) {
      ADD_FAILURE() << "a fault that must not be seen was: " << found;
    } else {
      EXPECT_EQ(found, absl::StatusCodeToString(*fault_.code));
    }
  }
  if (fault_.certain) {
    EXPECT_FALSE(outcome.store_failures.empty()) << "the store reports success";
  }
  if (fault_.options.act != Act::kDestroy) {
    EXPECT_GT(Value(fault_.counter, outcome.stats), 0U);
  }
  CheckReproduced(outcome);
  CheckOps(outcome);
  CheckRemedies(outcome);
}

/// A page is reproduced only if the store did not give it.
void Loop::CheckReproduced(const RunOutcome& outcome) const {
  if (fault_.code == absl::StatusCode::kDataLoss) return;
  std::uint64_t failures = 0;
  for (const auto& [code, count] : outcome.store_failures) failures += count;
  const bool of_writes = fault_.options.plan.direction == io::IoDirection::kWrite;
  EXPECT_LE(outcome.pages_reproduced, of_writes ? 0 : failures)
      << "reproduced pages whose content was readable";
}

void Loop::CheckOps(const RunOutcome& outcome) const {
  for (const auto& [reason, count] : outcome.op_failures) {
    if (reason == TicketFailure::kPageLost) {
      EXPECT_EQ(fault_.seen, Seen::kLoss) << count << " ops found a page lost";
    } else if (count > 0) {
      EXPECT_EQ(fault_.seen, Seen::kFull) << count << " ops found a tier full";
    }
  }
  if (fault_.seen != Seen::kLoss) {
    EXPECT_EQ(outcome.pages_lost, 0U);
  }
}

void Loop::CheckRemedies(const RunOutcome& outcome) const {
  const Remedies& remedies = fault_.remedies;
  const auto lost = outcome.store_failures.find(absl::StatusCode::kDataLoss);
  const std::uint64_t pages = lost == outcome.store_failures.end() ? 0 : lost->second;
  EXPECT_EQ(outcome.stats.retired, remedies.retires ? pages : 0);
  if (!remedies.moves) {
    EXPECT_EQ(outcome.moved, 0U) << "pages moved without another drive or a reason";
  }
  EXPECT_LE(outcome.fenced, remedies.fences ? 1U : 0U);
}

void Loop::Count(const RunOutcome& outcome) {
  ++totals_.runs;
  totals_.strikes += outcome.struck ? 1 : 0;
  for (const auto& [code, count] : outcome.store_failures) totals_.store_failures += count;
  totals_.ops_full += Failures(outcome, TicketFailure::kTierFull);
  totals_.ops_lost += Failures(outcome, TicketFailure::kPageLost);
  totals_.reproduced += outcome.pages_reproduced;
  totals_.passed_while_held += outcome.passed_while_held;
  totals_.retired += outcome.stats.retired;
  totals_.moved += outcome.moved;
  totals_.fenced += outcome.fenced;
}

/// A loop that never saw these effects has tested nothing.
void Loop::CheckTotals() const {
  if (!fault_.seeds) {
    EXPECT_GT(totals_.strikes, 0U);
    if (totals_.strikes < kStrikesThatShow) return;
  }
  if (fault_.code.has_value()) {
    EXPECT_GT(totals_.store_failures, 0U);
  }
  if (fault_.seen == Seen::kFull) {
    EXPECT_GT(totals_.ops_full, 0U);
  }
  if (fault_.seen == Seen::kLoss) {
    EXPECT_GT(totals_.ops_lost, 0U);
  }
  if (fault_.options.target == Target::kReproducible) {
    EXPECT_GT(totals_.reproduced, 0U);
  }
  // A fault that loses pages moves only writes in flight to the drive, and some runs have none.
  if (fault_.remedies.moves && !fault_.remedies.retires) {
    EXPECT_GT(totals_.moved, 0U);
  }
  if (fault_.remedies.fences && medium_ == Medium::kVirtual) {
    EXPECT_GT(totals_.fenced, 0U);
  }
  const auto kind = fault_.options.plan.kind;
  if (kind == testing::FaultPlan::Kind::kHeld || kind == testing::FaultPlan::Kind::kHeldBefore) {
    EXPECT_GT(totals_.passed_while_held, 0U) << "everybody waited for the slow one";
  }
}

void Loop::Print(const LoopStride& stride, std::uint64_t attempts) const {
  std::printf(
      "%s on %s: %llu runs to attempt %llu by %llu, %llu struck; %llu store failures, "
      "%llu ops full, %llu ops lost, %llu pages reproduced, "
      "%llu places retired, %llu writes moved, %llu drives fenced\n",
      fault_.name.c_str(),
      ToString(medium_).c_str(),
      static_cast<unsigned long long>(totals_.runs),
      static_cast<unsigned long long>(attempts),
      static_cast<unsigned long long>(stride.stride),
      static_cast<unsigned long long>(totals_.strikes),
      static_cast<unsigned long long>(totals_.store_failures),
      static_cast<unsigned long long>(totals_.ops_full),
      static_cast<unsigned long long>(totals_.ops_lost),
      static_cast<unsigned long long>(totals_.reproduced),
      static_cast<unsigned long long>(totals_.retired),
      static_cast<unsigned long long>(totals_.moved),
      static_cast<unsigned long long>(totals_.fenced));
}

}  // namespace

void RunCounterLoop(const FaultCase& fault, Medium medium, const LoopStride& stride) {
  Loop(fault, medium).Run(stride);
}

}  // namespace sluice::faults
