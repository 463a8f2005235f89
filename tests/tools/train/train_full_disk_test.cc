// A disk that another program fills during a run: a small ext4 on a loop device (root).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
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

using ::testing::HasSubstr;

constexpr std::uint64_t kDiskBytes = std::uint64_t{48} << 20;
/// Room for parameters and gradients, and not for all moments: the update of step 1 fails.
constexpr std::uint64_t kLeftBytes = std::uint64_t{16} << 20;

/// Takes the free space on the file system of `directory`, but for `left` bytes. Returns whether it
/// could.
bool FillAllBut(const std::string& directory, std::uint64_t left) {
  const std::uint64_t free = testing::FreeBytes(directory);
  const int fd = open((directory + "/filler").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const bool taken =
      free > left && fd >= 0 && posix_fallocate(fd, 0, static_cast<off_t>(free - left)) == 0;
  close(fd);
  return taken;
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class SlowTrainFullDiskTest : public TrainCommandTest {
 protected:
  void SetUp() override { std::filesystem::create_directory(state_); }

  std::vector<std::string> OnDisk(const std::string& disk, std::vector<std::string> more) const {
    std::filesystem::create_directory(disk + "/spill");
    chmod((disk + "/spill").c_str(), 0700);
    for (const char* setting : {"tiers.nvme.keep_free=0",
                                "tiers.nvme.bytes=30MiB",
                                "tiers.dram.bytes=1152KiB",
                                "io.reserved_space=off",
                                "model.width=128",
                                "model.layers=6",
                                "train.val_every=100",
                                "train.steps=12"}) {
      more.insert(more.end(), {"--set", setting});
    }
    more.insert(more.end(), {"--set", "tiers.nvme.directory=" + disk + "/spill"});
    return Words(more);
  }

  /// Runs on a disk that is filled once the spill file is there: "exit CODE", a line, and standard
  /// error. "skip: ..." when there is no such disk.
  std::string RunWhileFilling(const std::string& state) {
    const TemporaryDirectory mounted;
    return testing::RunInChild([&]() -> std::string {
      const std::string why = testing::MountSmallExt4(mounted.path(), kDiskBytes);
      if (!why.empty()) return "skip: " + why;
      const std::string disk = mounted.path();
      std::vector<std::string> more;
      if (!state.empty()) more = {"--save-state", state == "disk" ? disk + "/state" : state};
      if (state == "disk") std::filesystem::create_directory(disk + "/state");
      const std::string errors = files_ / "errors";
      Command command(OnDisk(disk, more), {.errors_path = errors});
      // Sparse spill files are announced once they are there.
      while (!std::filesystem::exists(errors) || std::filesystem::file_size(errors) == 0) {
        usleep(1000);
      }
      if (!FillAllBut(disk, kLeftBytes)) return "the disk could not be filled";
      const int code = command.Wait();
      return "exit " + std::to_string(code) + "\n" + ReadWhole(errors);
    });
  }

  const std::string state_ = files_ / "state";
};

TEST_F(SlowTrainFullDiskTest, TheLastStepIsSavedElsewhere) {
  const std::string text = RunWhileFilling(state_);
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and a loop device: " << text.substr(6);
  EXPECT_THAT(text, HasSubstr("exit 3\n"));
  EXPECT_THAT(text, HasSubstr("sluice: saved step 1 in " + state_));
  EXPECT_EQ(CountOf(text, "a transfer of tensor"), 1) << text;
  EXPECT_EQ(CountOf(text, " like it\n"), 1) << text;
  EXPECT_LE(CountOf(text, "\n"), 6) << text;
  // An undisturbed run saves the same bytes after this step.
  const std::string unbroken = files_ / "unbroken";
  std::filesystem::create_directory(unbroken);
  std::vector<std::string> words = OnDisk(files_.path(), {"--save-state", unbroken});
  words.insert(words.end(), {"--set", "train.steps=1"});
  Command command(words);
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_TRUE(ReadWhole(state_ + "/optimizer.sluice") == ReadWhole(unbroken + "/optimizer.sluice"));
}

TEST_F(SlowTrainFullDiskTest, ASaveWithoutAPlaceSaysSo) {
  const std::string text = RunWhileFilling("");
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and a loop device: " << text.substr(6);
  EXPECT_THAT(text, HasSubstr("exit 3\n"));
  EXPECT_THAT(
      text,
      HasSubstr("nothing was saved, as neither --state nor --save-state names a directory\n"));
}

TEST_F(SlowTrainFullDiskTest, ADiskWithoutRoomForSavesIsRefusedBeforeTheRun) {
  const std::string text = RunWhileFilling("disk");
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and a loop device: " << text.substr(6);
  EXPECT_THAT(text, HasSubstr("exit 2\n"));
  EXPECT_THAT(text, HasSubstr("for each of 1 kept and 1 being written"));
}

}  // namespace
}  // namespace sluice::tools
