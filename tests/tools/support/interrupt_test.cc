#include "tools/support/interrupt.h"

#include <signal.h>
#include <unistd.h>

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

TEST(InterruptWatchTwiceTest, ASignalThatComesAtOnceIsTheSame) {
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

constexpr InterruptWatch::Options kOfBatchSystems = {
    .signals = InterruptWatch::Options::Signals::kOfBatchSystems};
constexpr InterruptWatch::Options kUnarmed = {
    .signals = InterruptWatch::Options::Signals::kOfBatchSystems,
    .armed = InterruptWatch::Options::Armed::kLater};

TEST(InterruptWatchBatchTest, NotesWhatBatchSystemsSend) {
  for (const int number : kBatchInterrupts) {
    const InterruptWatch watch(kOfBatchSystems);
    raise(number);
    EXPECT_EQ(watch.signal(), number);
  }
}

TEST(InterruptWatchBatchTest, ARequestForASaveIsNoInterrupt) {
  const InterruptWatch watch(kOfBatchSystems);
  EXPECT_FALSE(watch.TakeSaveRequest());
  raise(kSaveSignal);
  raise(kSaveSignal);
  EXPECT_FALSE(watch.interrupted());
  EXPECT_TRUE(watch.TakeSaveRequest());
  EXPECT_FALSE(watch.TakeSaveRequest());
}

TEST(InterruptWatchBatchTest, TheKernelRepeatsSigxcpu) {
  const InterruptWatch watch(kOfBatchSystems);
  raise(SIGXCPU);
  std::this_thread::sleep_for(2 * kSameSignal);
  raise(SIGXCPU);
  EXPECT_EQ(watch.signal(), SIGXCPU);
}

TEST(InterruptWatchBatchTest, OtherCommandsKeepTheirAnswers) {
  for (const int number : {SIGXCPU, SIGUSR1, SIGUSR2}) {
    const InterruptWatch watch;
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << number;
  }
}

TEST(InterruptWatchDeathTest, AnUnarmedWatchEndsAtTheFirstSignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) {
    EXPECT_EXIT(
        {
          const InterruptWatch watch(kUnarmed);
          raise(number);
        },
        ::testing::KilledBySignal(number),
        "^$");
  }
  // No core is left behind.
  EXPECT_EXIT(
      {
        const InterruptWatch watch(kUnarmed);
        raise(SIGXCPU);
      },
      ::testing::ExitedWithCode(128 + SIGXCPU),
      "^$");
}

TEST(InterruptWatchDeathTest, AnUnarmedWatchHasNothingToSave) {
  EXPECT_EXIT(
      {
        InterruptWatch watch(kUnarmed);
        raise(kSaveSignal);
        watch.Arm();
        raise(SIGTERM);
        _exit(watch.TakeSaveRequest() ? 1 : watch.signal());
      },
      ::testing::ExitedWithCode(SIGTERM),
      "^sluice: SIGUSR1: there is nothing to save yet; the run goes on\n"
      "sluice: finishing what has begun; once more to stop at once\n$");
}

}  // namespace
}  // namespace sluice::tools
