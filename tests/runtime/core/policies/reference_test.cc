#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/policies/naive_caches.h"
#include "tests/runtime/core/policies/policy_cache.h"
#include "tests/runtime/core/policies/trace.h"

/// The policies against independent references, access by access.
///   SLUICE_TEST_SEED=17 core_test          takes another seed

namespace sluice::core {
namespace {

std::uint64_t Seed() {
  const char* text = std::getenv("SLUICE_TEST_SEED");
  return text == nullptr ? 20'261'122 : std::strtoull(text, nullptr, 10);
}

class PolicyReferenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  /// Whether the cache and the naive one agree; stops at the first difference.
  bool Compare(const Trace& trace, std::size_t frames, bool ask_in_vain) {
    PolicyCache cache(GetParam(), frames, trace);
    if (ask_in_vain) cache.AskInVain(Seed());
    const auto naive = MakeNaiveCache(GetParam(), frames, trace);
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const NaiveCache::Outcome expected = naive->Access(trace[i].page);
      const PolicyCache::Step step = cache.Next();
      EXPECT_EQ(step.hit, expected.hit) << "access " << i << " to page " << trace[i].page;
      EXPECT_EQ(step.evicted, expected.evicted) << "access " << i << " to page " << trace[i].page;
      if (step.hit != expected.hit || step.evicted != expected.evicted) return false;
    }
    accesses_ += trace.size();
    return true;
  }

  std::size_t accesses_ = 0;
};

TEST_P(PolicyReferenceTest, EvictsWhatTheReferenceEvicts) {
  RecordProperty("seed", std::to_string(Seed()));
  for (const auto& [name, trace] : AllTraces({.length = 6'000, .pages = 120, .seed = Seed()})) {
    for (const std::size_t frames : {1, 2, 3, 10, 37, 100}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << frames << " frames, seed " << Seed());
      ASSERT_TRUE(Compare(trace, frames, false));
    }
  }
  EXPECT_GE(accesses_, 100'000u);
}

TEST_P(PolicyReferenceTest, EvictsWhatTheReferenceEvictsOnTinyTraces) {
  for (std::uint64_t seed = Seed(); seed < Seed() + 200; ++seed) {
    for (const std::size_t frames : {1, 2, 3, 4, 5, 6}) {
      SCOPED_TRACE(::testing::Message() << frames << " frames, seed " << seed);
      ASSERT_TRUE(Compare(UniformTrace({.length = 100, .pages = 8, .seed = seed}), frames, false));
    }
  }
}

TEST_P(PolicyReferenceTest, QuestionsThatAreNotFollowedChangeNothing) {
  for (const auto& [name, trace] : AllTraces({.length = 6'000, .pages = 120, .seed = Seed()})) {
    for (const std::size_t frames : {3, 37}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << frames << " frames, seed " << Seed());
      ASSERT_TRUE(Compare(trace, frames, true));
    }
  }
}

std::string ReferenceName(const ::testing::TestParamInfo<std::string>& info) {
  return info.param == "2q" ? "two_queue" : info.param;
}
INSTANTIATE_TEST_SUITE_P(All,
                         PolicyReferenceTest,
                         ::testing::ValuesIn(NaivePolicies()),
                         ReferenceName);

}  // namespace
}  // namespace sluice::core
