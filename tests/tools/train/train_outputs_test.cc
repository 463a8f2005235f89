#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(TrainCommandTest, OutputsThatCannotBeWrittenAreFoundBeforeTheWork) {
  std::filesystem::create_symlink("loop", files_ / "loop");
  for (const char* flag : {"--record", "--trace", "--save"}) {
    for (const std::string& name : {std::string("no/such"),
                                    std::string("text/x"),
                                    std::string("loop"),
                                    std::string(256, 'x')}) {
      Command command(Words({flag, files_ / name}));
      EXPECT_EQ(command.Wait(), 2) << flag << " " << name;
      EXPECT_THAT(command.errors(), HasSubstr(flag));
      EXPECT_EQ(command.output().find("step"), std::string::npos);
    }
  }
  EXPECT_THAT(files_.Names(), ElementsAre("loop", "text"));
}

TEST_F(TrainCommandTest, AnOutputWithoutADirectoryNamesFlagAndDirectory) {
  const std::string missing = files_ / "nodir";
  EXPECT_EQ(UserError(Words({"--save", missing + "/model"})),
            "sluice: --save: directory " + missing + " does not exist\n");
  EXPECT_EQ(UserError(Words({"--trace", "/proc/x"})),
            "sluice: --trace: no file can be made in /proc; name another directory\n");
}

TEST_F(TrainCommandTest, AnOutputWithoutANameIsRefusedByItsFlag) {
  EXPECT_THAT(UserError(Words({"--save", ""})), HasSubstr("--save"));
  EXPECT_THAT(UserError(Words({"--record="})), HasSubstr("--record"));
  EXPECT_THAT(UserError(Words({"--trace", ""})), HasSubstr("--trace"));
}

TEST_F(TrainCommandTest, ResultsThatAreLostAreNoSuccess) {
  for (const char* flag : {"--json", "--set=train.seed=1"}) {
    Command command(Words({flag, "--set", "train.steps=2"}), {.output_path = "/dev/full"});
    EXPECT_EQ(command.Wait(), 3) << flag;
    EXPECT_THAT(command.errors(), AllOf(HasSubstr("standard output"), HasSubstr("ENOSPC")));
  }
}

TEST_F(TrainCommandTest, AResumedRunSavesTheModelOfOneThatNeverStopped) {
  const std::string state = files_ / "state";
  std::filesystem::create_directory(state);
  const auto run = [&](std::vector<std::string> more) {
    Command command(Words(std::move(more)));
    EXPECT_EQ(command.Wait(), 0) << command.errors();
    return command.output();
  };
  run({"--save", files_ / "whole"});
  run({"--set", "train.steps=3", "--save-state", state});
  const std::string resumed = run({"--resume", state, "--save", files_ / "parts"});
  EXPECT_THAT(resumed, HasSubstr("resumed after step 3 of 6"));
  EXPECT_THAT(resumed, HasSubstr("step    4/6"));
  EXPECT_EQ(ReadWhole(files_ / "whole"), ReadWhole(files_ / "parts"));
}

/// NFS, CIFS and FUSE refuse nameless files with this error.
TEST_F(TrainCommandTest, WithoutNamelessFilesEverythingIsSavedAllTheSame) {
  const auto run = [&](const std::string& to) -> std::string {
    std::filesystem::create_directory(files_ / to);
    Command command(Words(
        {"--set", "train.steps=3", "--save-state", files_ / to, "--save", files_ / to + "/w"}));
    return command.Wait() == 0 ? "" : command.errors();
  };
  EXPECT_EQ(run("usual"), "");
  const std::string text = testing::RunInChild([&]() -> std::string {
    const std::string failed = testing::RefuseNamelessFiles(EOPNOTSUPP);
    return failed.empty() ? run("refused") : failed;
  });
  EXPECT_EQ(text, "");
  for (const char* name : {"/optimizer.sluice", "/w"}) {
    EXPECT_EQ(ReadWhole(files_ / "refused" + name), ReadWhole(files_ / "usual" + name)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(files_ / "refused"), {}), 2);
}

TEST_F(TrainCommandTest, StateFlagsThatCannotWorkAreRefused) {
  const std::string state = files_ / "state";
  EXPECT_THAT(UserError(Words({"--save-state", state})), HasSubstr("is not a directory"));
  EXPECT_THAT(UserError(Words({"--resume", state})), HasSubstr("is not a directory"));
  std::filesystem::create_directory(state);
  EXPECT_THAT(UserError(Words({"--resume", state, "--verify"})), HasSubstr("leave one of them"));
  if (geteuid() == 0) {  // nobody else may write there
    EXPECT_THAT(UserError(Words({"--save-state", "/proc"})),
                HasSubstr("no file can be made in /proc"));
  }
  EXPECT_THAT(UserError(Words({"--save-state", state, "--set", "train.optimizer=\"none\""})),
              HasSubstr("need an optimizer"));
  EXPECT_THAT(UserError(Words({"--set", "train.optimizer=\"adam\""})),
              HasSubstr("\"adamw\" and \"none\""));
  EXPECT_EQ(UserError(Words({"--resume", state})),
            "sluice: --resume: there is no save (optimizer.sluice) in " + state +
                "; name one that has a save\n");
}

TEST_F(TrainCommandTest, AStateThatCannotBeWrittenIsRefusedBeforeTheWork) {
  std::filesystem::create_directories(files_ / "state/optimizer.sluice");
  EXPECT_EQ(UserError(Words({"--save-state", files_ / "state"})),
            "sluice: --save-state: " + (files_ / "state") +
                "/optimizer.sluice is a directory; move it away, or name another directory\n");
  EXPECT_EQ(UserError(Words({"--save-state", ""})),
            "sluice: --save-state is empty; name a directory\n");
  EXPECT_EQ(UserError(Words({"--resume="})), "sluice: --resume is empty; name a directory\n");
}

struct ClosedStreams {
  const char* flag;
  std::vector<int> closed;
  int exit_code;
};

TEST_F(TrainCommandTest, ClosedStreamsTakeNoFilesNumber) {
  const std::vector<std::string> words = Words({"--set", "train.steps=2", "--save"});
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  Command plain(with({files_ / "plain"}));
  ASSERT_EQ(plain.Wait(), 0) << plain.errors();
  for (const ClosedStreams& streams : {ClosedStreams{"--json", {1}, 3},
                                       ClosedStreams{"--json", {2}, 0},
                                       ClosedStreams{"--verify", {0, 1, 2}, 3}}) {
    Command command(with({files_ / "model", streams.flag}), {.closed = streams.closed});
    EXPECT_EQ(command.Wait(), streams.exit_code) << streams.flag << command.errors();
    EXPECT_TRUE(ReadWhole(files_ / "model") == ReadWhole(files_ / "plain")) << streams.flag;
    std::filesystem::remove(files_ / "model");
  }
}

TEST_F(TrainCommandTest, AnOutputThatFailsKeepsBackNothingElse) {
  Command command(Words({"--save",
                         "/dev/full",
                         "--record",
                         files_ / "record",
                         "--trace",
                         files_ / "trace",
                         "--json"}));
  EXPECT_EQ(command.Wait(), 3);
  EXPECT_EQ(Json::parse(command.output())["steps"], 6);
  EXPECT_THAT(command.errors(), HasSubstr("--save /dev/full: write /dev/full: ENOSPC"));
  EXPECT_THAT(files_.Names(), ElementsAre("record", "text", "trace"));
}

TEST_F(TrainCommandTest, EveryOutputThatFailsIsReported) {
  const std::string gone = files_ / "gone";
  std::filesystem::create_directory(gone);
  Command command(Words({"--set",
                         "train.steps=100000",
                         "--save",
                         gone + "/model",
                         "--record",
                         gone + "/record",
                         "--trace",
                         files_ / "trace"}));
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  std::filesystem::remove_all(gone);
  command.Signal(SIGINT);
  EXPECT_EQ(command.Wait(), 3);
  EXPECT_THAT(command.output(), HasSubstr("peak memory"));
  EXPECT_THAT(
      command.errors(),
      AllOf(HasSubstr("--save " + gone + "/model: "), HasSubstr("--record " + gone + "/record: ")));
  EXPECT_THAT(files_.Names(), ElementsAre("text", "trace"));
}

TEST_F(TrainCommandTest, AClosedPipeIsNoSuccess) {
  Command command(Words({"--set", "train.steps=100000", "--save", files_ / "model.safetensors"}));
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  command.CloseOutput();
  EXPECT_EQ(command.Wait(), 128 + SIGPIPE);
  EXPECT_THAT(files_.Names(), ElementsAre("text"));
}

TEST_F(TrainCommandTest, OneFileForTwoOutputsIsFoundBeforeTheWork) {
  std::filesystem::create_symlink("out", files_ / "link");
  EXPECT_THAT(UserError(Words({"--save", files_ / "out", "--trace", files_ / "link"})),
              AllOf(HasSubstr("--save"), HasSubstr("--trace"), HasSubstr("same file")));
  EXPECT_THAT(UserError(Words({"--save", files_ / "out", "--record", files_ / "./out"})),
              AllOf(HasSubstr("--save"), HasSubstr("--record")));
  EXPECT_THAT(files_.Names(), ElementsAre("link", "text"));
}

TEST_F(TrainCommandTest, AnInputIsNotReplaced) {
  const std::string config = files_.Write("config.toml", ReadWhole(kTinyConfig));
  std::filesystem::create_hard_link(text_path_, files_ / "hard");
  std::filesystem::create_symlink("config.toml", files_ / "soft");
  std::vector<std::string> words = Words({"--save", files_ / "soft"});
  std::replace(words.begin(), words.end(), kTinyConfig, config);
  EXPECT_THAT(UserError(words), AllOf(HasSubstr("--save"), HasSubstr("what --config reads")));
  EXPECT_THAT(UserError(Words({"--record", files_ / "hard"})),
              AllOf(HasSubstr("--record"), HasSubstr("what --text reads, " + text_path_)));
  EXPECT_THAT(UserError({"train",
                         "--config",
                         kTinyConfig,
                         "--set",
                         "train.texts=[\"" + text_path_ + "\"]",
                         "--trace",
                         text_path_}),
              AllOf(HasSubstr("--trace"), HasSubstr("what train.texts reads")));
  EXPECT_EQ(ReadWhole(config), ReadWhole(kTinyConfig));
}

TEST_F(TrainCommandTest, StandardOutputsFileIsNotReplaced) {
  const std::string log = files_.Write("log", "");
  Command command(Words({"--record", "/dev/stdout"}), {.output_path = log});
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.errors(), AllOf(HasSubstr("--record"), HasSubstr("standard output")));
}

}  // namespace
}  // namespace sluice::tools
