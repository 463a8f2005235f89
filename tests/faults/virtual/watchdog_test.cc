#include "tests/faults/virtual/watchdog.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace sluice::faults {
namespace {

TEST(WatchdogTest, ARunThatOutlastsItsLimitIsEndedAndNamedWithItsThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Watchdog watchdog("a test of patience", std::chrono::seconds(0));
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      "a test of patience does not end\nthread [0-9]+ [^\n]*: wchan");
}

TEST(WatchdogTest, ARunThatEndsInTimeGoesOn) {
  const Watchdog watchdog("a test that ends", std::chrono::hours(1));
}

}  // namespace
}  // namespace sluice::faults
