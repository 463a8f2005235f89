#include "tools/train/state/resume.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/optim/save/state_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() { flags_.state_path = files_.path(); }

  /// A save of no tensors.
  void WriteSave(const std::string& name, int step, const TrainSettings& settings = {}) {
    using Json = nlohmann::json;
    const Json text = {{"layout", ""},
                       {"step", step},
                       {"rates", Json::array()},
                       {"hashes", Json::array()},
                       {"note", DescribeRun(settings, "cafe")}};
    std::filesystem::create_directory(files_ / name);
    const auto file = optim::StateWriter::Create(files_ / name, {});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->Commit(text.dump()), IsOk());
  }
  ResumableSaves Resumable() {
    auto resumable = FindResumableSaves(flags_, "cafe");
    EXPECT_THAT(resumable, IsOk());
    return resumable.ok() ? *std::move(resumable) : ResumableSaves();
  }
  absl::Status Refusal() { return FindResumableSaves(flags_, "cafe").status(); }

  TemporaryDirectory files_;
  TrainFlags flags_;
};

TEST_F(ResumeTest, WithoutASaveTheRunBegins) {
  EXPECT_TRUE(Resumable().candidates.empty());
  EXPECT_EQ(Resumable().step(), 0);
  flags_.state_path.clear();
  EXPECT_TRUE(Resumable().candidates.empty());
}

TEST_F(ResumeTest, TheNewestComesFirstAndOthersArePassedOver) {
  WriteSave("step-0000003", 3);
  WriteSave("step-0000004", 4);
  WriteSave("step-0000005", 6);
  WriteSave("step-0000006", 6, {.model = {.layers = 1}});
  WriteSave("step-0000007", 7);
  std::filesystem::resize_file(files_ / "step-0000007/optimizer.sluice", 40);
  const ResumableSaves resumable = Resumable();
  ASSERT_EQ(resumable.candidates.size(), 2u);
  EXPECT_EQ(resumable.step(), 4);
  EXPECT_THAT(resumable.passed_over,
              ElementsAre(AllOf(HasSubstr("step-0000007: "), HasSubstr("use another save")),
                          AllOf(HasSubstr("step-0000006: "), HasSubstr("\"model.layers\" is 1")),
                          HasSubstr("/step-0000005 is of step 6, another one")));
}

TEST_F(ResumeTest, SavesThatCannotBeGoneOnFromAreNoReasonToBeginAnew) {
  WriteSave("step-0000003", 3, {.model = {.layers = 1}});
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(Refusal().message()),
      AllOf(HasSubstr("--state: no save in " + files_.path() + " can be gone on from: step-"),
            HasSubstr("go on with --set model.layers=1, or begin anew with another --state"),
            HasSubstr("; to begin anew name another directory, or move the saves away")));
  std::ofstream(files_ / "step-0000003/optimizer.sluice") << "short";
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kFailedPrecondition) << "2, not 3";
}

TEST_F(ResumeTest, SavesThatDoNotLoadArePassedOver) {
  for (const int step : {3, 4, 5}) WriteSave(SaveName(step), step);
  ResumableSaves resumable = Resumable();
  std::vector<std::string> tried;
  const auto load = [&](const std::string& directory) {
    tried.push_back(directory);
    return tried.size() < 2 ? absl::DataLossError("a checksum is wrong") : absl::OkStatus();
  };
  const auto loaded = LoadNewest(load, &resumable);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->run.step, 4);
  EXPECT_THAT(tried, ElementsAre(files_ / "step-0000005", files_ / "step-0000004"));
  EXPECT_THAT(resumable.passed_over, ElementsAre("step-0000005: a checksum is wrong"));
}

TEST_F(ResumeTest, TheFirstReasonDecidesTheExitCodeIfNothingLoads) {
  for (const int step : {3, 4}) WriteSave(SaveName(step), step);
  ResumableSaves resumable = Resumable();
  const auto damaged = [](const std::string&) { return absl::DataLossError("damaged"); };
  const absl::Status refusal = LoadNewest(damaged, &resumable).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("step-0000004: damaged; step-0000003: damaged; to begin anew name"));
}

TEST_F(ResumeTest, AnErrorThatSaysNothingOfTheSaveEndsTheRun) {
  for (const int step : {3, 4}) WriteSave(SaveName(step), step);
  for (const int error : {EIO, EMFILE, ENOMEM, EACCES}) {
    ResumableSaves resumable = Resumable();
    int loads = 0;
    const auto load = [&](const std::string&) {
      ++loads;
      return base::StatusFromErrno(error, "open optimizer.sluice");
    };
    const absl::Status refusal = LoadNewest(load, &resumable).status();
    EXPECT_EQ(refusal.code(), base::StatusFromErrno(error, "").code());
    EXPECT_THAT(std::string(refusal.message()),
                AllOf(HasSubstr("--state: open optimizer.sluice: "),
                      HasSubstr("; the save in " + (files_ / "step-0000004") +
                                " may be good: try again, or move it away to go on from an older "
                                "one")));
    EXPECT_EQ(loads, 1) << error;
    EXPECT_THAT(resumable.passed_over, IsEmpty()) << error;
  }
}

TEST_F(ResumeTest, ASaveThatCannotBeOpenedIsNotPassedOver) {
  WriteSave("step-0000003", 3);
  std::filesystem::create_directory(files_ / "step-0000004");
  // Opening a socket gives ENXIO, like a drive that is gone.
  const std::string socket = files_ / "step-0000004/optimizer.sluice";
  ASSERT_EQ(mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(Refusal().message()),
              AllOf(HasSubstr("ENXIO"), HasSubstr("may be good")));
}

TEST_F(ResumeTest, ResumeReadsDirectoriesOfBothKinds) {
  flags_.resume_path = files_.path();
  flags_.state_path.clear();
  EXPECT_THAT(std::string(Refusal().message()), HasSubstr("--resume: there is no save"));
  WriteSave("step-0000003", 3);
  WriteSave("step-0000004", 4);
  EXPECT_EQ(Resumable().step(), 4);
  flags_.settings.train.steps = 4;
  EXPECT_EQ(Refusal().message(),
            "--resume: 4 steps are done already, and \"train.steps\" is 4; raise it");
  flags_.settings.train.steps = 8;
  flags_.resume_path = files_ / "step-0000003";
  EXPECT_EQ(Resumable().step(), 3);
}

}  // namespace
}  // namespace sluice::tools
