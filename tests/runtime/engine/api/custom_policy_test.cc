#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "base/check.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/plain_lru.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr PageIndex kNoSuchPage = 123'456'789;

/// Least recently used, with a few things that a test may change.
class TestPolicy : public testing::PlainLru {
 public:
  void OnUse(int tier, PageIndex page) override {
    PlainLru::OnUse(tier, page);
    ++accesses_;
  }
  void OnLeave(int tier, PageIndex page, Departure why) override {
    PlainLru::OnLeave(tier, page, why);
    ++departures_;
  }
  std::optional<PageIndex> Victim(const VictimRequest& request,
                                  const std::function<bool(PageIndex)>& evictable) override {
    SLUICE_CHECK(!breaks_, "an invariant that this test breaks");
    ++victims_;
    if (silent_) return std::nullopt;
    const std::optional<PageIndex> victim = PlainLru::Victim(request, evictable);
    return lies_ && victim.has_value() ? kNoSuchPage : victim;
  }
  std::optional<FetchAdvice> NextFetch(int tier, Position) override {
    if (tier == 1 && endless_) return FetchAdvice{.page = 0};
    if (tier != 1 || advised_ >= advice_until_.load()) return std::nullopt;
    return FetchAdvice{.page = advised_++, .not_before = not_before_};
  }

  bool breaks_ = false;
  bool lies_ = false;    ///< names a page that there is not
  bool silent_ = false;  ///< names no page
  int victims_ = 0;      ///< read after the runtime is gone
  int accesses_ = 0;
  int departures_ = 0;
  /// Pages 0 and up to here are to be fetched into dram.
  std::atomic<PageIndex> advice_until_ = 0;
  Position not_before_ = 0;
  bool endless_ = false;  ///< advises the same page for ever
  PageIndex advised_ = 0;
};

/// The policy of the runtime's next start, whose state the test may read once the runtime is gone.
class PolicyHandle : public Policy {
 public:
  explicit PolicyHandle(std::shared_ptr<TestPolicy> policy) : policy_(std::move(policy)) {}
  void OnArrive(int tier, const PageFacts& facts) override { policy_->OnArrive(tier, facts); }
  void OnUse(int tier, PageIndex page) override { policy_->OnUse(tier, page); }
  void OnLeave(int tier, PageIndex page, Departure why) override {
    policy_->OnLeave(tier, page, why);
  }
  std::optional<PageIndex> Victim(const VictimRequest& request,
                                  const std::function<bool(PageIndex)>& evictable) override {
    return policy_->Victim(request, evictable);
  }
  std::optional<FetchAdvice> NextFetch(int tier, Position now) override {
    return policy_->NextFetch(tier, now);
  }

 private:
  const std::shared_ptr<TestPolicy> policy_;
};

void Use(const std::shared_ptr<TestPolicy>& policy, RuntimeOptions* options) {
  options->custom_policies["test"] = {
      .create = [policy] { return std::make_unique<PolicyHandle>(policy); }};
  options->policy = "test";
}

TEST(CustomPolicyRuntimeTest, ACustomPolicyChoosesTheVictims) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  Use(policy, &runtime.options);
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 60 * kPage);
  runtime.Write(tensor, Pattern(1, 60 * kPage));
  EXPECT_EQ(runtime.Read(tensor, kHbm0), Pattern(1, 60 * kPage));
  runtime.Stop();
  EXPECT_GT(policy->victims_, 0);
  EXPECT_GE(policy->accesses_, 60);
  EXPECT_GT(policy->departures_, 0);
}

TEST(CustomPolicyRuntimeTest, ACustomPolicyChoosesTheFetches) {
  for (const Position not_before : {Position{0}, kNever}) {
    RuntimeFixture runtime;
    const auto policy = std::make_shared<TestPolicy>();
    policy->not_before_ = not_before;
    Use(policy, &runtime.options);
    runtime.Start();
    const TensorId tensor = runtime.Make("t", 60 * kPage);
    runtime.Write(tensor, Pattern(1, 60 * kPage));
    const auto read = [&] {  // pages that have been read, or are being read
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

TEST(CustomPolicyRuntimeTest, AdviceWithoutAnEndHoldsNothingUp) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  policy->endless_ = true;
  Use(policy, &runtime.options);
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 60 * kPage);
  runtime.Write(tensor, Pattern(1, 60 * kPage));
  EXPECT_EQ(runtime.Read(tensor), Pattern(1, 60 * kPage));
}

TEST(CustomPolicyRuntimeTest, TheErrorNamesAPolicyThatNamesNoVictim) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  policy->silent_ = true;
  Use(policy, &runtime.options);
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 60 * kPage);
  absl::Status status;
  for (std::uint64_t page = 0; page < 60 && status.ok(); ++page) {
    status = runtime
                 .Acquire({.tensor = tensor,
                           .range = {page * kPage, kPage},
                           .mode = AccessMode::kOverwrite,
                           .tier = kHbm0})
                 .status();
  }
  EXPECT_THAT(status,
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "no room can be made in hbm0: the policy 'test' names no page that may "
                       "leave"));
}

TEST(CustomPolicyRuntimeTest, ANameThatIsTakenIsRefused) {
  RuntimeFixture runtime;
  Use(std::make_shared<TestPolicy>(), &runtime.options);
  runtime.options.custom_policies["lru"] = runtime.options.custom_policies["test"];
  EXPECT_THAT(Runtime::Create(runtime.options),
              IsStatus(absl::StatusCode::kInvalidArgument, "has the name of a built-in one"));
}

TEST(CustomPolicyDeathTest, ABrokenInvariantHandsTheEventHistoryToTheLog) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The directory, and all that the dying process leaves in it, goes at the end.
  const testing::TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  const auto break_it = [](bool lies) {
    RuntimeFixture runtime;
    const auto policy = std::make_shared<TestPolicy>();
    policy->breaks_ = !lies;
    policy->lies_ = lies;
    Use(policy, &runtime.options);
    runtime.options.log = [](LogLevel, std::string_view line) {
      std::fprintf(stderr, "logged: %.*s\n", static_cast<int>(line.size()), line.data());
    };
    runtime.Start();
    const TensorId tensor = runtime.Make("t", 60 * kPage);
    runtime.Write(tensor, Pattern(1, 60 * kPage));
  };
  EXPECT_DEATH(break_it(true),
               "policy \"test\" names page .* as the victim of tier 1: name a page");
  EXPECT_DEATH(break_it(false),
               "logged: .*an invariant that this test breaks.*\nlogged: event 0: create");
}

}  // namespace
}  // namespace sluice
