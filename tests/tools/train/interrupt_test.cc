#include "tools/train/interrupt.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

TEST(InterruptWatchTest, NotesTheFirstSignal) {
  const InterruptWatch watch;
  EXPECT_FALSE(watch.interrupted());
  raise(SIGINT);
  EXPECT_TRUE(watch.interrupted());
}

TEST(InterruptWatchTest, StartsFresh) {
  { const InterruptWatch watch; }
  const InterruptWatch watch;
  EXPECT_FALSE(watch.interrupted());
}

TEST(InterruptWatchDeathTest, TheSecondSignalKills) {
  EXPECT_EXIT(
      {
        const InterruptWatch watch;
        raise(SIGINT);
        raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT),
      "");
}

}  // namespace
}  // namespace sluice::tools
