#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/support/sanitizers.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// The directory of this process's memory cgroup: of version 1, or of version 2.
std::optional<fs::path> OwnMemoryCgroup() {
  std::ifstream lines("/proc/self/cgroup");
  std::optional<fs::path> unified;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t path = line.find(':', controllers) + 1;
    const std::string names = line.substr(controllers, path - controllers - 1);
    if (names == "memory") return fs::path("/sys/fs/cgroup/memory" + line.substr(path));
    if (names.empty()) unified = fs::path("/sys/fs/cgroup" + line.substr(path));
  }
  return unified;
}

/// A cgroup below this process's own with a limit to its memory; gone with its processes.
class LimitedCgroup {
 public:
  explicit LimitedCgroup(std::uint64_t bytes) {
    const std::optional<fs::path> own = OwnMemoryCgroup();
    if (!own.has_value()) return;
    path_ = *own / ("sluice-test-" + std::to_string(getpid()));
    std::error_code error;
    made_ = fs::create_directory(path_, error);
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      if (made_ && fs::exists(path_ / name, error)) {
        std::ofstream file(path_ / name);
        file << bytes << std::endl;
        limited_ = file.good();
      }
    }
  }
  ~LimitedCgroup() {
    if (made_) rmdir(path_.c_str());
  }
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;

  bool limited() const { return limited_; }
  std::string processes() const { return path_ / "cgroup.procs"; }

 private:
  fs::path path_;
  bool made_ = false;
  bool limited_ = false;
};

TEST(TrainMemoryTest, TheMainJobRunsWithinItsBudgetsAnd160MiB) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  constexpr std::uint64_t kLimit = (64 + 128 + 160) * kMiB;
  const LimitedCgroup cgroup(kLimit);
  if (!cgroup.limited()) GTEST_SKIP() << "no memory cgroup can be made here (needs root)";
  const TemporaryDirectory spill;
  Command command({"train",
                   "--config",
                   testing::ProjectFile("configs/train-gpt.toml"),
                   "--json",
                   "--set",
                   "train.steps=2",
                   "--set",
                   "train.val_batches=1",
                   "--set",
                   "tiers.nvme.directory=" + spill.path()},
                  {.cgroup_processes = cgroup.processes()});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const auto json = nlohmann::json::parse(command.output());
  EXPECT_LE(json["peak_rss_bytes"], kLimit);
  EXPECT_GE(json["live_bytes"].get<double>(), 3.2 * 192 * kMiB);
  EXPECT_LE(json["padding_bytes"].get<double>(), 0.05 * json["live_bytes"].get<double>());
}

TEST(TrainMemoryTest, HalfOfTheBudgetsRunToo) {
  const TemporaryDirectory spill;
  Command command({"train",
                   "--config",
                   testing::ProjectFile("configs/train-gpt.toml"),
                   "--json",
                   "--set",
                   "train.steps=2",
                   "--set",
                   "train.batch=2",
                   "--set",
                   "train.val_batches=1",
                   "--set",
                   "tiers.hbm.bytes=32MiB",
                   "--set",
                   "tiers.dram.bytes=64MiB",
                   "--set",
                   "tiers.nvme.directory=" + spill.path()});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const auto json = nlohmann::json::parse(command.output());
  EXPECT_LE(json["tiers"]["hbm"]["peak_bytes"], 32 * kMiB);
  EXPECT_LE(json["tiers"]["dram"]["peak_bytes"], 64 * kMiB);
}

}  // namespace
}  // namespace sluice::tools
