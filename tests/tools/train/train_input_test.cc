#include <sys/stat.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/train/train_command.h"

/// `sluice train --text -`.

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;

/// The line that tells size, files and hash of the text.
std::string TextLine(const std::string& output) { return output.substr(0, output.find('\n')); }

TEST_F(TrainCommandTest, StandardInputIsATextAsAFileIs) {
  Command file(Words({"--set", "train.steps=2"}));
  EXPECT_EQ(file.Wait(), 0) << file.errors();
  Command input(WordsOn("-", {"--set", "train.steps=2", "--verify"}), {.input_path = text_path_});
  EXPECT_EQ(input.Wait(), 0) << input.errors();
  EXPECT_THAT(input.output(), HasSubstr("identical to the run in RAM"));
  EXPECT_EQ(TextLine(input.output()), TextLine(file.output()));
}

TEST_F(TrainCommandTest, StandardInputMayBeAPipe) {
  const std::string pipe = files_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::FILE* const out = std::fopen(pipe.c_str(), "we");
    const std::string text = ReadWhole(text_path_);
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), out), text.size());
    EXPECT_EQ(std::fclose(out), 0);
  });
  Command command(WordsOn("-", {"--set", "train.steps=1"}), {.input_path = pipe});
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  writer.join();
  EXPECT_THAT(TextLine(command.output()), HasSubstr("in 1 file"));
}

TEST_F(TrainCommandTest, StandardInputThatIsNoTextIsRefused) {
  const auto error = [&](const std::vector<std::string>& more, const std::string& path) {
    Command command(WordsOn("-", more), {.input_path = path});
    EXPECT_EQ(command.Wait(), 2);
    return command.errors();
  };
  EXPECT_EQ(error({"--text=-"}, text_path_),
            "sluice: --text: \"-\" is named twice; standard input can be read once\n");
  EXPECT_THAT(error({}, "/dev/null"), HasSubstr("standard input is a device or socket"));
  EXPECT_EQ(error({}, files_.Write("empty", "")), "sluice: --text: standard input is empty\n");
  EXPECT_THAT(error({"--save", text_path_}, text_path_),
              HasSubstr("would replace what --text reads"));
}

}  // namespace
}  // namespace sluice::tools
