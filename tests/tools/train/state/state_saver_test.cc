#include "tools/train/state/state_saver.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::AllOf;
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

TEST_F(StateSaverTest, AnOlderSaveThatCannotBeRemovedIsToldAndTheNewOneStands) {
  class NoUnlink : public StateCalls {
   public:
    int Unlink(const std::string&) override {
      errno = EIO;
      return -1;
    }
  };
  NoUnlink calls;
  directory_.reset();
  directory_ = *StateDirectory::Open({.path = path_, .calls = &calls});
  StateSaver saver = Make("1 steps");
  for (const int step : {1, 2}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  for (const int step : {3, 4}) {
    const std::string name = std::to_string(step);
    EXPECT_THAT(
        std::string(saver.SaveIfDue(step).message()),
        AllOf(HasSubstr("--state: saved step " + name + ", but an older save stays: remove"),
              HasSubstr("EIO")));
    EXPECT_FALSE(saver.HasUnsaved(step)) << "the save itself is good";
    EXPECT_THAT(saver.SaveNow(step), IsOk());
    EXPECT_EQ(ListSaves(path_)->front().step, step);
  }
  EXPECT_EQ(ListSaves(path_)->size(), 4U);
  directory_.reset();
}

TEST_F(StateSaverTest, ASaveThatLedToNoNumberIsRemoved) {
  StateSaver saver = Make("1 steps", 3);
  EXPECT_EQ(*saver.OnLossNotFinite(4), "") << "the save is not of this run";
  for (const int step : {4, 5}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  EXPECT_EQ(*saver.OnLossNotFinite(7), "") << "the loss of 6 was a number";
  EXPECT_EQ(*saver.OnLossNotFinite(6),
            "--state: the save after step 5 is removed, as the loss after it is no finite number; "
            "that of "
            "step 4 stands");
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000005"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/step-0000004/optimizer.sluice"));
}

/// Saves beside the steps: a test says when they are over.
class StateSaverBesideTest : public StateSaverTest {
 protected:
  StateSaver Make(const std::string& every) {
    return StateSaver(
        {.every = *ParseSaveInterval(every),
         .directory = directory_.get(),
         .save = [this](const std::string& to) { return Save(to); },
         .start =
             [this](const std::string& to) {
               begun_.push_back(to);
               return start_result_;
             },
         .finish =
             [this] {
               while (!begun_.empty()) Finish();
             },
         .give_up =
             [this](int step) {
               if (!gives_up_) return;
               EXPECT_EQ(begun_.back(), path_ + "/" + SaveName(step));
               begun_.pop_back();
               over_.push_back({step, path_ + "/" + SaveName(step), absl::CancelledError("")});
             },
         .take = [this] { return std::exchange(over_, {}); },
         .now = [this] { return now_; }},
        0);
  }
  /// The save that was begun first is over.
  void Finish(const absl::Status& status = absl::OkStatus()) {
    const std::string to = begun_.front();
    begun_.erase(begun_.begin());
    const std::string name = std::filesystem::path(to).filename().string();
    if (status.ok()) files_.Write("state/" + name + "/optimizer.sluice", "");
    over_.push_back({std::stoi(name.substr(5)), to, status});
  }
  std::vector<int> SavedSteps() const {
    std::vector<int> steps;
    const std::vector<FoundSave> saves = ListSaves(path_).value();
    for (const FoundSave& save : saves) steps.push_back(save.step);
    return steps;
  }

  bool gives_up_ = false;  ///< saves that are under way lack parts
  absl::Status start_result_;
  std::vector<std::string> begun_;
  std::vector<gpt::FinishedSave> over_;
};

TEST_F(StateSaverBesideTest, ASaveCountsOnceItIsWhole) {
  StateSaver saver = Make("2 steps");
  EXPECT_THAT(saver.SaveIfDue(2), IsOk());
  EXPECT_TRUE(saver.HasUnsaved(2));
  EXPECT_THAT(saver.SaveIfDue(3), IsOk());
  EXPECT_TRUE(saver.HasUnsaved(2));
  Finish();
  EXPECT_THAT(saver.SaveIfDue(3), IsOk());
  EXPECT_FALSE(saver.HasUnsaved(2));
  EXPECT_THAT(saves_, IsEmpty()) << "none was made at once";
  EXPECT_THAT(saver.SaveNow(3), IsOk());
  EXPECT_THAT(saves_, ElementsAre("step-0000003"));
}

TEST_F(StateSaverBesideTest, TwoMayBeUnderWayAndTheLastTwoStay) {
  StateSaver saver = Make("1 steps");
  for (int step = 1; step <= 2; ++step) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  for (int step = 3; step <= 6; ++step) {
    Finish();
    EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  }
  EXPECT_THAT(SavedSteps(), ElementsAre(4, 3));
  EXPECT_THAT(saver.SaveNow(6), IsOk());
  EXPECT_THAT(SavedSteps(), ElementsAre(6, 5));
  EXPECT_THAT(saves_, IsEmpty()) << "the last one had been begun";
}

TEST_F(StateSaverBesideTest, AFailureIsToldAndLeavesNothing) {
  StateSaver saver = Make("1 steps");
  EXPECT_THAT(saver.SaveIfDue(1), IsOk());
  Finish();
  EXPECT_THAT(saver.SaveIfDue(2), IsOk());
  Finish(absl::ResourceExhaustedError("write: ENOSPC"));
  start_result_ = absl::FailedPreconditionError("no");
  EXPECT_EQ(
      saver.SaveIfDue(3).message(),
      "--state " + path_ + ": the save after step 2 failed: write: ENOSPC; that of step 1 stands");
  EXPECT_THAT(SavedSteps(), ElementsAre(1));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000002"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000003"));
}

TEST_F(StateSaverBesideTest, TheEndIsJudgedByTheNewestSave) {
  StateSaver saver = Make("1 steps");
  for (const int step : {1, 2}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  Finish(absl::ResourceExhaustedError("write: ENOSPC"));
  EXPECT_THAT(saver.SaveNow(2), IsOk());
  EXPECT_THAT(SavedSteps(), ElementsAre(2));
  EXPECT_THAT(saves_, IsEmpty());
}

TEST_F(StateSaverBesideTest, ASaveUnderWayThatLedToNoNumberIsRemoved) {
  StateSaver saver = Make("1 steps");
  EXPECT_THAT(saver.SaveIfDue(1), IsOk());
  Finish();
  EXPECT_THAT(saver.SaveIfDue(2), IsOk());
  EXPECT_THAT(*saver.OnLossNotFinite(3), HasSubstr("the save after step 2 is removed"));
  EXPECT_THAT(SavedSteps(), ElementsAre(1));
}

TEST_F(StateSaverBesideTest, ASaveUnderWayIsGivenUpAndTheOneBeforeItEnds) {
  gives_up_ = true;
  StateSaver saver = Make("1 steps");
  for (const int step : {1, 2}) EXPECT_THAT(saver.SaveIfDue(step), IsOk());
  EXPECT_EQ(*saver.OnLossNotFinite(3),
            "--state: the save after step 2 is given up, as the loss after it is no finite number; "
            "that of "
            "step 1 stands");
  EXPECT_THAT(SavedSteps(), ElementsAre(1));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/step-0000002"));
}

TEST_F(StateSaverBesideTest, ASaveOfParametersThatAreNoNumbersIsRemoved) {
  StateSaver saver = Make("1 steps");
  EXPECT_THAT(saver.SaveIfDue(1), IsOk());
  Finish();
  EXPECT_THAT(saver.SaveIfDue(2), IsOk());
  EXPECT_EQ(*saver.OnParametersNotFinite(2),
            "--state: the save after step 2 is removed, as its parameters are no finite numbers; "
            "that of step 1 stands");
  EXPECT_THAT(SavedSteps(), ElementsAre(1));
  EXPECT_EQ(*saver.OnParametersNotFinite(3), "") << "there is no save of step 3";
  EXPECT_THAT(SavedSteps(), ElementsAre(1));
}

TEST_F(StateSaverTest, AnEarlierSaveElsewhereIsSaidToBeThere) {
  const auto refused = [](const std::string&) { return absl::ResourceExhaustedError("ENOSPC"); };
  StateSaver saver({.in_place = "/here", .resumed_from = "/there", .save = refused}, 5);
  EXPECT_EQ(
      saver.SaveNow(6).message(),
      "--save-state /here: the save after step 6 failed: ENOSPC; that of step 5 in /there stands");
  StateSaver same({.in_place = "/here", .save = refused}, 5);
  EXPECT_EQ(same.SaveNow(6).message(),
            "--save-state /here: the save after step 6 failed: ENOSPC; that of step 5 stands");
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
  EXPECT_THAT(none.SaveNow(1), IsOk());
}

}  // namespace
}  // namespace sluice::tools
