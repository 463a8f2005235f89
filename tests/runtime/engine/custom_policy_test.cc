#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/check.h"
#include "runtime/core/core.h"
#include "runtime/engine/runtime_state.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr PageIndex kNoSuchPage = 123'456'789;

/// Least recently used, with a few things that a test may change.
class TestPolicy : public Policy {
 public:
  std::string_view name() const override { return "test"; }
  void OnInsert(int tier, const PageFacts& facts) override { lru_->OnInsert(tier, facts); }
  void OnChange(int tier, const PageFacts& facts) override { lru_->OnChange(tier, facts); }
  void OnRemove(int tier, PageIndex page) override { lru_->OnRemove(tier, page); }
  void OnAccess(int tier, PageIndex page) override {
    lru_->OnAccess(tier, page);
    ++accesses_;
  }
  void OnLeave(int tier, PageIndex page, Departure why) override {
    lru_->OnLeave(tier, page, why);
    ++departures_;
  }
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override {
    SLUICE_CHECK(!breaks_, "an invariant that this test breaks");
    ++victims_;
    const std::optional<PageIndex> victim = lru_->Victim(tier, evictable);
    return lies_ && victim.has_value() ? kNoSuchPage : victim;
  }
  int EvictTo(int tier, PageIndex) override { return tier + evict_by_; }
  std::optional<FetchAdvice> NextFetch(int tier, Position) override {
    if (tier == 1 && endless_) return FetchAdvice{.page = 0};
    if (tier != 1 || advised_ >= advice_until_.load()) return std::nullopt;
    return FetchAdvice{.page = advised_++, .not_before = not_before_};
  }

  bool breaks_ = false;
  bool lies_ = false;  ///< names a page that there is not
  int victims_ = 0;    ///< read after the runtime is gone
  int accesses_ = 0;
  int departures_ = 0;
  int evict_by_ = 1;
  /// Pages 0 and up to here are to be fetched into dram.
  std::atomic<PageIndex> advice_until_ = 0;
  Position not_before_ = 0;
  bool endless_ = false;  ///< advises the same page for ever
  PageIndex advised_ = 0;

 private:
  std::shared_ptr<Policy> lru_ = core::CreatePolicy("lru").value();
};

TEST(CustomPolicyTest, ItChoosesTheVictims) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  runtime.options.custom_policy = policy;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 60 * kPage);
  runtime.Write(tensor, Pattern(1, 60 * kPage));
  EXPECT_EQ(runtime.Read(tensor, kHbm0), Pattern(1, 60 * kPage));
  runtime.Stop();
  EXPECT_GT(policy->victims_, 0);
  EXPECT_GE(policy->accesses_, 60);
  EXPECT_GT(policy->departures_, 0);
}

std::uint32_t QueueDepth(const Runtime& runtime) {
  std::uint32_t depth = 0;
  for (const auto& [name, link] : runtime.GetStats().links) {
    depth += link.in.queue_depth + link.out.queue_depth;
  }
  return depth;
}

std::vector<std::byte> ReadPage(RuntimeFixture& runtime, TensorId tensor, std::uint64_t page) {
  const auto lease = runtime.Acquire({.tensor = tensor, .range = {page * kPage, kPage}});
  EXPECT_THAT(lease, IsOk());
  const std::span<std::byte> bytes = lease->Contiguous();
  return {bytes.begin(), bytes.end()};
}

/// The most bytes that dram held while 40 pages were written through hbm.
std::uint64_t DramPeakWhenEvictingBy(int tiers) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  policy->evict_by_ = tiers;
  runtime.options.custom_policy = policy;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 40 * kPage);
  for (std::uint64_t page = 0; page < 40; ++page) {  // each with the transit frames to itself
    runtime.Write(tensor, Pattern(page, kPage), page * kPage, kHbm0);
    while (QueueDepth(*runtime) > 0) std::this_thread::yield();
  }
  const std::uint64_t peak = runtime->GetStats().tiers.at("dram").peak_bytes;
  for (std::uint64_t page = 0; page < 40; ++page) {
    EXPECT_EQ(ReadPage(runtime, tensor, page), Pattern(page, kPage));
  }
  return peak;
}

TEST(CustomPolicyTest, ItChoosesWhereVictimsGo) {
  EXPECT_GE(DramPeakWhenEvictingBy(1), 20 * kPage);
  EXPECT_LE(DramPeakWhenEvictingBy(2), 12 * kPage) << "they only pass through";
}

TEST(CustomPolicyTest, ItChoosesWhatIsFetchedAndWhen) {
  for (const Position not_before : {Position{0}, kNever}) {
    RuntimeFixture runtime;
    const auto policy = std::make_shared<TestPolicy>();
    policy->not_before_ = not_before;
    runtime.options.custom_policy = policy;
    runtime.Start();
    const TensorId tensor = runtime.Make("t", 60 * kPage);
    runtime.Write(tensor, Pattern(1, 60 * kPage));
    const auto read = [&] {  // or being read
      const DirectionStats in = runtime->GetStats().links.at("dram-nvme").in;
      return in.copies + in.queue_depth;
    };
    const std::uint64_t before = read();
    policy->advice_until_ = 4;
    const Access last{.tensor = tensor, .range = {59 * kPage, kPage}, .tier = kDram0};
    EXPECT_THAT(runtime.Acquire(last), IsOk());  // the advice is taken after any event
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (not_before == 0 && read() < before + 4) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    const Access first{.tensor = tensor, .range = {0, 4 * kPage}, .tier = kDram0};
    EXPECT_EQ(read(), before + (not_before == 0 ? 4 : 0));
    EXPECT_THAT(runtime.Acquire(first), IsOk());
    EXPECT_EQ(read(), before + 4) << "fetched once";
  }
}

TEST(CustomPolicyTest, AdviceWithoutAnEndHoldsNothingUp) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  policy->endless_ = true;
  runtime.options.custom_policy = policy;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 60 * kPage);
  runtime.Write(tensor, Pattern(1, 60 * kPage));
  EXPECT_EQ(runtime.Read(tensor), Pattern(1, 60 * kPage));
}

TEST(CustomPolicyDeathTest, ABrokenInvariantHandsTheEventHistoryToTheLog) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // What the dying process leaves behind goes with this directory.
  const testing::TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  const auto break_it = [](bool lies) {
    RuntimeFixture runtime;
    const auto policy = std::make_shared<TestPolicy>();
    policy->breaks_ = !lies;
    policy->lies_ = lies;
    runtime.options.custom_policy = policy;
    runtime.options.log = [](LogLevel, std::string_view line) {
      std::fprintf(stderr, "logged: %.*s\n", static_cast<int>(line.size()), line.data());
    };
    runtime.Start();
    const TensorId tensor = runtime.Make("t", 60 * kPage);
    runtime.Write(tensor, Pattern(1, 60 * kPage));
  };
  EXPECT_DEATH(break_it(true), "Policy::Victim names an inserted page that `evictable` accepts");
  EXPECT_DEATH(break_it(false),
               "logged: .*an invariant that this test breaks.*\nlogged: event 0: create");
}

}  // namespace
}  // namespace sluice
