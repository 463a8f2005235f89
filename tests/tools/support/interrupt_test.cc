#include "tools/support/interrupt.h"

#include <signal.h>

#include <thread>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

class InterruptWatchTest : public ::testing::TestWithParam<int> {};

TEST_P(InterruptWatchTest, NotesTheFirstSignal) {
  const InterruptWatch watch;
  EXPECT_FALSE(watch.interrupted());
  raise(GetParam());
  EXPECT_TRUE(watch.interrupted());
  EXPECT_EQ(watch.signal(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, InterruptWatchTest, ::testing::ValuesIn(kInterrupts));

TEST(InterruptWatchTwiceTest, StartsFresh) {
  {
    const InterruptWatch watch;
    raise(SIGTERM);
  }
  const InterruptWatch watch;
  EXPECT_FALSE(watch.interrupted());
  raise(SIGTERM);
  EXPECT_TRUE(watch.interrupted());
}

TEST(InterruptWatchNohupTest, AnIgnoredHangUpStaysIgnored) {
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    const InterruptWatch watch;
    raise(SIGHUP);
    EXPECT_FALSE(watch.interrupted());
  }
  EXPECT_EQ(signal(SIGHUP, before), SIG_IGN);
}

TEST(InterruptWatchTwiceTest, WhatComesAtOnceIsTheSameSignal) {
  const InterruptWatch watch;
  raise(SIGTERM);
  raise(SIGTERM);
  raise(SIGHUP);
  EXPECT_EQ(watch.signal(), SIGTERM);
}

TEST(InterruptWatchDeathTest, TheSecondSignalKills) {
  EXPECT_EXIT(
      {
        const InterruptWatch watch;
        raise(SIGINT);
        std::this_thread::sleep_for(2 * kSameSignal);
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM),
      "^sluice: finishing what has begun; once more to stop at once\n$");
}

}  // namespace
}  // namespace sluice::tools
