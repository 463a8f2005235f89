#include "tools/train/state/state_saver.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateSaverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = StateDirectory::Open({.path = path_});
    ASSERT_THAT(opened, IsOk());
    directory_ = *std::move(opened);
  }
  StateSaver Make(const std::string& every, int step = 0) {
    return StateSaver({.every = *ParseSaveInterval(every),
                       .directory = directory_.get(),
                       .save = [this](const std::string& to) { return Save(to); },
                       .now = [this] { return now_; }},
                      step);
  }
  absl::Status Save(const std::string& to) {
    saves_.push_back(std::filesystem::path(to).filename().string());
    now_ += save_takes_;
    if (result_.ok()) files_.Write("state/" + saves_.back() + "/optimizer.sluice", "");
    return result_;
  }

  TemporaryDirectory files_;
  const std::string path_ = files_ / "state";
  std::unique_ptr<StateDirectory> directory_;
  SaveClock::Time now_;
  std::chrono::seconds save_takes_{0};
  absl::Status result_;
  std::vector<std::string> saves_;
};

TEST_F(StateSaverTest, SavesAfterEverySoManyStepsAndOnceAtTheEnd) {
  StateSaver saver = Make("2 steps", 3);
  for (int step = 4; step <= 7; ++step) {
    EXPECT_EQ(saver.SavesAfter(step), step % 2 == 0);
    EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  }
  EXPECT_THAT(saver.SaveNow(7), IsOk());
  EXPECT_THAT(saver.SaveNow(7), IsOk());
  EXPECT_THAT(saves_, ElementsAre("step-0000004", "step-0000006", "step-0000007"));
}

TEST_F(StateSaverTest, TheTimeCountsFromTheEndOfTheLastSave) {
  StateSaver saver = Make("10 s");
  save_takes_ = std::chrono::seconds(5);
  for (int step = 1; step <= 30; ++step) {
    now_ += std::chrono::seconds(1);
    EXPECT_FALSE(saver.SavesAfter(step));
    EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  }
  EXPECT_THAT(saves_, ElementsAre("step-0000010", "step-0000020", "step-0000030"));
}

TEST_F(StateSaverTest, ARunThatMadeNoStepSavesNothing) {
  EXPECT_THAT(Make("", 0).SaveNow(0), IsOk());
  EXPECT_THAT(Make("", 5).SaveNow(5), IsOk());
  EXPECT_THAT(saves_, IsEmpty());
}

TEST_F(StateSaverTest, AFailedSaveLeavesNothingAndNamesWhatStands) {
  StateSaver saver = Make("1 steps");
  EXPECT_THAT(saver.SaveIfDue(1), IsOk());
  result_ = absl::ResourceExhaustedError("write: ENOSPC");
  const absl::Status failed = saver.SaveIfDue(2);
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      failed.message(),
      "--state " + path_ + ": the save after step 2 failed: write: ENOSPC; that of step 1 stands");
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000002"));
  result_ = absl::OkStatus();
  EXPECT_THAT(saver.SaveNow(2), IsOk()) << "a save that failed is made again";
  EXPECT_TRUE(std::filesystem::exists(path_ + "/step-0000001/optimizer.sluice"));
}

TEST_F(StateSaverTest, ASaveThatLedToNoNumberIsRemoved) {
  StateSaver saver = Make("1 steps", 3);
  EXPECT_EQ(*saver.OnLossNotFinite(4), "") << "it is not of this run";
  for (const int step : {4, 5}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  EXPECT_EQ(*saver.OnLossNotFinite(7), "") << "the loss of 6 was a number";
  EXPECT_EQ(*saver.OnLossNotFinite(6),
            "--state: the save after step 5 is removed, as its loss is no finite number; that of "
            "step 4 stands");
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000005"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/step-0000004/optimizer.sluice"));
}

TEST_F(StateSaverTest, OneFileIsReplacedInPlace) {
  std::vector<std::string> to;
  StateSaver saver({.every = {.steps = 1},
                    .in_place = "/some/where",
                    .save =
                        [&](const std::string& directory) {
                          to.push_back(directory);
                          return absl::OkStatus();
                        }},
                   0);
  for (const int step : {1, 2}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  EXPECT_THAT(to, ElementsAre("/some/where", "/some/where"));
  StateSaver none({.every = {.steps = 1}, .save = nullptr}, 0);
  EXPECT_FALSE(none.SavesAfter(1));
  EXPECT_THAT(none.SaveNow(1), IsOk());
}

}  // namespace
}  // namespace sluice::tools
