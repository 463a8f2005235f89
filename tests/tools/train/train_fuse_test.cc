// Everything that a run writes on a file system without O_TMPFILE and fallocate(2): bindfs (root).
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

class SlowTrainFuseTest : public TrainCommandTest {
 protected:
  /// A job in `disk` that ends with a model there, or is stopped after `stop_after`: why not.
  std::string Job(const std::string& disk, const std::string& stop_after) const {
    Command command(Words({"--set",
                           "tiers.nvme.directory=" + disk + "/spill",
                           "--set",
                           "train.steps=12",
                           "--set",
                           "train.save_every=2 steps",
                           "--state",
                           disk + "/state",
                           "--save",
                           disk + "/model"}));
    int expected = 0;
    if (!stop_after.empty()) {
      if (!command.ReadUntil(stop_after)) return "ended early: " + command.errors();
      command.Signal(SIGTERM);
      expected = 128 + SIGTERM;
    }
    const int code = command.Wait();
    return code == expected ? "" : "exit " + std::to_string(code) + ": " + command.errors();
  }
  std::string JobInTwoParts(const std::string& disk) const {
    std::filesystem::create_directory(disk + "/spill");
    chmod((disk + "/spill").c_str(), 0700);
    std::string wrong = Job(disk, "step    5/");
    if (wrong.empty()) wrong = Job(disk, "");
    if (!wrong.empty()) return wrong;
    for (const auto& entry : std::filesystem::directory_iterator(disk + "/spill")) {
      return "left behind: " + entry.path().string();
    }
    return {};
  }
};

TEST_F(SlowTrainFuseTest, AJobInTwoPartsHasTheBytesOfOtherFileSystems) {
  const TemporaryDirectory source, mounted;
  const std::string text = testing::RunInChild([&]() -> std::string {
    const std::string why = testing::MountBindfs(source.path(), mounted.path());
    return why.empty() ? JobInTwoParts(mounted.path()) : "skip: " + why;
  });
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and bindfs: " << text.substr(6);
  EXPECT_EQ(text, "");
  Command whole(Words({"--set", "train.steps=12", "--save", files_ / "whole"}));
  ASSERT_EQ(whole.Wait(), 0) << whole.errors();
  EXPECT_TRUE(ReadWhole(source / "model") == ReadWhole(files_ / "whole"));
}

}  // namespace
}  // namespace sluice::tools
