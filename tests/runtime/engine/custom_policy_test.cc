#include <gtest/gtest.h>

#include <cstdio>

#include "base/check.h"
#include "runtime/core/core.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr std::uint64_t kPage = RuntimeFixture::kPage;

/// Least recently used, with a few things that a test may change.
class TestPolicy : public Policy {
 public:
  int version() const override { return version_; }
  std::string_view name() const override { return "test"; }
  void OnInsert(int tier, const PageFacts& facts) override { lru_->OnInsert(tier, facts); }
  void OnAccess(int tier, const PageFacts& facts) override { lru_->OnAccess(tier, facts); }
  void OnChange(int tier, const PageFacts& facts) override { lru_->OnChange(tier, facts); }
  void OnRemove(int tier, PageIndex page) override { lru_->OnRemove(tier, page); }
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override {
    SLUICE_CHECK(!breaks_, "an invariant that this test breaks");
    ++victims_;
    return lru_->Victim(tier, evictable);
  }
  Fate TensorFate(TensorId tensor) override {
    return tensor.value % 2 == 0 ? Fate::kKeep : Fate::kRecompute;
  }

  int version_ = kPolicyVersion;
  bool breaks_ = false;
  int victims_ = 0;  ///< read after the runtime is gone

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
  EXPECT_EQ(runtime->TensorFate(TensorId{2}), Fate::kKeep);
  EXPECT_EQ(runtime->TensorFate(TensorId{3}), Fate::kRecompute);
  runtime.Stop();
  EXPECT_GT(policy->victims_, 0);
}

TEST(CustomPolicyTest, AnotherVersionIsRefused) {
  RuntimeFixture runtime;
  const auto policy = std::make_shared<TestPolicy>();
  policy->version_ = kPolicyVersion + 1;
  runtime.options.custom_policy = policy;
  EXPECT_THAT(Runtime::Create(runtime.options), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST(CustomPolicyDeathTest, ABrokenInvariantHandsTheEventHistoryToTheLog) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // What the dying process leaves behind goes with this directory.
  const testing::TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  const auto break_it = [] {
    RuntimeFixture runtime;
    const auto policy = std::make_shared<TestPolicy>();
    policy->breaks_ = true;
    runtime.options.custom_policy = policy;
    runtime.options.log = [](LogLevel, std::string_view line) {
      std::fprintf(stderr, "logged: %.*s\n", static_cast<int>(line.size()), line.data());
    };
    runtime.Start();
    const TensorId tensor = runtime.Make("t", 60 * kPage);
    runtime.Write(tensor, Pattern(1, 60 * kPage));
  };
  EXPECT_DEATH(break_it(),
               "logged: .*an invariant that this test breaks.*\nlogged: event 0: create");
}

}  // namespace
}  // namespace sluice
