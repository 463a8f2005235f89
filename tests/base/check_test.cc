#include "base/check.h"

#include <cstdio>
#include <thread>

#include "gtest/gtest.h"

namespace sluice::base {
namespace {

TEST(CheckTest, TrueConditionIsEvaluatedOnceAndGoesOn) {
  int evaluations = 0;
  SLUICE_CHECK(++evaluations == 1, "I0: counted");
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, FalseConditionStopsWithConditionExplanationAndPlace) {
  const int frames = 3;
  EXPECT_DEATH(SLUICE_CHECK(frames < 2, "I1: over budget"),
               "check failed at .*check_test.cc:[0-9]+: frames < 2 .I1: over budget.");
}

void PrintObserved(void* context, const char* message) {
  std::fprintf(stderr, "observer of %s saw: %s\n", static_cast<const char*>(context), message);
}

char observed_name[] = "core";

TEST(CheckDeathTest, ObserverIsToldBeforeTheEnd) {
  EXPECT_DEATH(
      {
        SetCheckObserver(&PrintObserved, observed_name);
        SLUICE_CHECK(false, "I3: pinned");
      },
      "observer of core saw: .*I3: pinned");
}

void FailAgain(void*, const char*) {
  std::fprintf(stderr, "observer called\n");
  SLUICE_CHECK(false, "nested");
}

TEST(CheckDeathTest, AFailureInsideTheObserverDoesNotCallItAgain) {
  EXPECT_DEATH(
      {
        SetCheckObserver(&FailAgain, nullptr);
        SLUICE_CHECK(false, "outer");
      },
      "outer.*\nobserver called\n.*nested.*\n$");
}

TEST(CheckDeathTest, ObserverBelongsToItsThread) {
  EXPECT_DEATH(
      {
        std::thread([] { SetCheckObserver(&PrintObserved, observed_name); }).join();
        SLUICE_CHECK(false, "elsewhere");
      },
      "elsewhere.\n$");
}

}  // namespace
}  // namespace sluice::base
