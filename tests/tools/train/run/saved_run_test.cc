#include "tools/train/run/saved_run.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/optim/save/state_writer.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SavedRunTest : public ::testing::Test {
 protected:
  /// A save of no tensors.
  void Write(int step, const Json& more) {
    Json text = {
        {"layout", ""}, {"step", step}, {"rates", Json::array()}, {"hashes", Json::array()}};
    text.update(more);
    const auto file = optim::StateWriter::Create(directory_.path(), {});
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Commit(text.dump()).ok());
  }

  std::string Refusal(const TrainSettings& settings, const std::string& text_hash = "cafe") {
    const auto run = CheckSavedRun(directory_.path(), settings, text_hash, "without --resume");
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(run.status().message());
  }

  /// Differences that are reported of a run that goes on.
  std::string Differences(const TrainSettings& settings, const std::string& text_hash = "cafe") {
    const auto run = CheckSavedRun(directory_.path(), settings, text_hash, "without --resume");
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->differences : "";
  }

  TemporaryDirectory directory_;
};

TEST_F(SavedRunTest, TheSameRunMayGoOnHoweverItIsMade) {
  TrainSettings settings;
  Write(3, {{"note", DescribeRun(settings, "cafe")}});
  settings.train.steps = 4;
  settings.train.learning_rate = 0.5;
  settings.train.warmup_steps = settings.train.val_every = 7;
  settings.train.beta1 = settings.train.beta2 = settings.train.weight_decay = 0.25;
  settings.train.group_sequences = 1;
  settings.train.compute_threads = 2;
  settings.train.recompute = gpt::Recompute::kAll;
  settings.runtime.policy = "lru";
  settings.runtime.dram_bytes = Bytes(1);
  const auto run = CheckSavedRun(directory_.path(), settings, "cafe", "without --resume");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->step, 3);
  EXPECT_EQ(run->differences, "");
}

TEST_F(SavedRunTest, AnotherRunIsRefusedByKeyBothValuesAndFix) {
  Write(3, {{"note", DescribeRun({}, "cafe")}});
  const auto refusal = [&](const auto& change) {
    TrainSettings settings;
    change(settings);
    return Refusal(settings);
  };
  EXPECT_THAT(refusal([](TrainSettings& s) { s.model.heads = 3; }),
              HasSubstr("\"model.heads\" is 6 in the save and 3 here; go on with --set "
                        "model.heads=6, or begin anew without --resume"));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.train.seed = 9; }),
              AllOf(HasSubstr("\"train.seed\" is 1 in the save and 9 here"),
                    HasSubstr("--set train.seed=1")));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.train.states = StateType::k8Bit; }),
              AllOf(HasSubstr("\"train.states\" is fp32 in the save and 8bit here"),
                    HasSubstr("--set train.states=fp32")));
  for (const char* key : {"layers", "width", "context"}) {
    EXPECT_THAT(
        refusal([](TrainSettings& s) { s.model.layers = s.model.width = s.model.context = 2; }),
        HasSubstr(std::string("\"model.") + key));
  }
}

TEST_F(SavedRunTest, OtherDataIsSaidWithWhereItGoesOn) {
  Write(3, {{"note", DescribeRun({}, "cafe")}});
  EXPECT_EQ(Differences({}, "beef"),
            "the text's xxh3 is cafe in the save and beef here: the run goes on with micro-batch 4 "
            "of its own order, and is not bit-identical to one that never stopped");
  TrainSettings settings;
  settings.train.batch = settings.train.micro_batches = 4;
  settings.train.val_fraction = 0.25;
  EXPECT_EQ(Differences(settings),
            "\"train.batch\" is 8 in the save and 4 here; \"train.micro_batches\" is 1 in the "
            "save and 4 here; \"train.val_fraction\" is 0.1 in the save and 0.25 here: the run "
            "goes on with micro-batch 13 of its own order, and is not bit-identical to one that "
            "never stopped");
}

TEST_F(SavedRunTest, ARefusedRunNamesNoOtherData) {
  Write(3, {{"note", DescribeRun({}, "cafe")}});
  TrainSettings settings;
  settings.model.width = 2;
  EXPECT_THAT(Refusal(settings, "beef"),
              AllOf(HasSubstr("\"model.width\""), Not(HasSubstr("xxh3"))));
}

TEST_F(SavedRunTest, ASaveOfNoTrainingRunIsRefused) {
  Write(3, Json::object());
  EXPECT_THAT(Refusal({}), HasSubstr("does not say of which run it is"));
  Write(3, {{"note", "of mine"}});
  EXPECT_THAT(Refusal({}), HasSubstr("does not say of which run it is"));
  Json note = Json::parse(DescribeRun({}, "cafe"));
  note.erase("train.seed");
  Write(3, {{"note", note.dump()}});
  EXPECT_THAT(Refusal({}), HasSubstr("it does not say its \"train.seed\"; begin anew"));
}

}  // namespace
}  // namespace sluice::tools
