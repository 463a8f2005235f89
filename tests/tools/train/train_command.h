#pragma once

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/project_paths.h"
#include "tests/tools/command.h"

namespace sluice::tools {

inline const std::string kTinyConfig = testing::ProjectFile("configs/train-gpt-tiny.toml");

/// A text with something to learn in it, and a spill directory.
class TrainCommandTest : public ::testing::Test {
 protected:
  TrainCommandTest() {
    std::string text;
    for (int line = 0; line < 600; ++line) {
      text += "line " + std::to_string(line) + ": the quick brown fox and its page\n";
    }
    text_path_ = files_.Write("text", text);
  }

  /// `sluice train` on the tiny configuration, and what is added.
  std::vector<std::string> Words(const std::vector<std::string>& more) const {
    return WordsOn(text_path_, more);
  }
  std::vector<std::string> WordsOn(const std::string& text,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",
                                      "--config",
                                      kTinyConfig,
                                      "--text",
                                      text,
                                      "--set",
                                      "tiers.nvme.directory=" + spill_.path()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// Runs into a user error: its text. Nothing is left behind.
  std::string UserError(const std::vector<std::string>& words) {
    Command command(words);
    EXPECT_EQ(command.Wait(), 2) << command.errors();
    EXPECT_THAT(spill_.Names(), ::testing::IsEmpty());
    return command.errors();
  }

  TemporaryDirectory files_;
  TemporaryDirectory spill_;
  std::string text_path_;
};

}  // namespace sluice::tools
