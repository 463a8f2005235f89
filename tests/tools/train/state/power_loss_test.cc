// A loss of power before and after each call that keeps a directory of saves: the saves that were
// durable are whole, whichever of the unsynced writes and names have reached the disk.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/power_model.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using sluice::testing::PowerModel;

/// The kernel's calls, each after a loss of power in the model.
class PowerCalls : public StateCalls {
 public:
  /// Judges what the disk holds.
  std::function<void(const PowerModel&)> check;

  int Open(const std::string& path, int flags, mode_t mode) override {
    const int fd = StateCalls::Open(path, flags, mode);
    if (fd < 0) return fd;
    if ((flags & O_ACCMODE) == O_RDONLY) {
      directories_[fd] = path;
    } else {
      nodes_[fd] = power_.NewNode();
      if ((flags & O_TMPFILE) != O_TMPFILE) power_.Enter(path, nodes_[fd]);
    }
    return fd;
  }
  ssize_t Write(int fd, const void* bytes, std::size_t size, off_t offset) override {
    const std::size_t part = (size + 1) / 2;
    power_.Write(
        nodes_.at(fd), static_cast<std::size_t>(offset), {static_cast<const char*>(bytes), part});
    return After(StateCalls::Write(fd, bytes, part, offset));
  }
  int Sync(int fd) override {
    if (const auto node = nodes_.find(fd); node != nodes_.end()) {
      power_.SyncFile(node->second);
    } else {
      power_.SyncDirectory(directories_.at(fd));
    }
    return After(StateCalls::Sync(fd));
  }
  int Link(int fd, const std::string& path) override {
    power_.Enter(path, nodes_.at(fd));
    return After(StateCalls::Link(fd, path));
  }
  int Rename(const std::string& from, const std::string& to) override {
    power_.Rename(from, to);
    return After(StateCalls::Rename(from, to));
  }
  int Unlink(const std::string& path) override {
    power_.Remove(path);
    return After(StateCalls::Unlink(path));
  }
  int MakeDirectory(const std::string& path, mode_t mode) override {
    power_.Enter(path, PowerModel::kDirectory);
    return After(StateCalls::MakeDirectory(path, mode));
  }
  int RemoveDirectory(const std::string& path) override {
    power_.Remove(path);
    return After(StateCalls::RemoveDirectory(path));
  }

  int calls() const { return calls_; }

 private:
  template <typename Result>
  Result After(Result result) {
    EXPECT_GE(result, 0);
    ++calls_;
    if (check) check(power_);
    return result;
  }

  PowerModel power_;
  std::map<int, int> nodes_;  ///< node of each descriptor that is written
  std::map<int, std::string> directories_;
  int calls_ = 0;
};

std::string ContentOf(int step) { return "the save of step " + std::to_string(step); }

class PowerLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    calls_.check = [this](const PowerModel& power) { CheckOutcomes(power); };
    auto opened = StateDirectory::Open({.path = path_, .calls = &calls_});
    ASSERT_THAT(opened, IsOk());
    directory_ = *std::move(opened);
  }

  /// Makes a save as the run does.
  void Save(int step) {
    const auto made = directory_->BeginSave(step);
    ASSERT_THAT(made, IsOk());
    auto file = base::NewFile::Create(*made + "/optimizer.sluice", {.calls = &calls_});
    ASSERT_THAT(file, IsOk());
    const std::string content = ContentOf(step);
    ASSERT_THAT((*file)->Write(std::as_bytes(std::span(content))), IsOk());
    ASSERT_THAT((*file)->Commit(), IsOk());
    ASSERT_THAT(directory_->EndSave(step), IsOk());
    durable_.insert(step);
  }

  /// A file with a save's name is a whole one; the last two durable saves are there.
  void CheckOutcomes(const PowerModel& power) {
    power.ForEachOutcome([&](const PowerModel::Files& files) {
      ++outcomes_;
      std::set<int> whole;
      for (const auto& [path, content] : files) {
        if (!path.ends_with("/optimizer.sluice")) continue;
        const std::string name = std::filesystem::path(path).parent_path().filename();
        const int step = std::stoi(name.substr(5));
        EXPECT_EQ(content, ContentOf(step)) << "after call " << calls_.calls();
        whole.insert(step);
      }
      int kept = 0;
      for (auto step = durable_.rbegin(); step != durable_.rend() && kept < kSavesKept; ++step) {
        // The older of two saves may go once a newer one is durable.
        ++kept;
        const bool replaced = kept == kSavesKept && whole.size() >= kSavesKept;
        EXPECT_TRUE(whole.contains(*step) || replaced)
            << "step " << *step << " after call " << calls_.calls();
      }
    });
  }

  TemporaryDirectory files_;
  const std::string path_ = files_ / "state";
  PowerCalls calls_;
  std::unique_ptr<StateDirectory> directory_;
  std::set<int> durable_;  ///< steps of the saves that EndSave has told to be
  int outcomes_ = 0;
};

TEST_F(PowerLossTest, DurableSavesOutliveAPowerLoss) {
  for (int step = 10; step <= 60 && !HasFailure(); step += 10) {
    ASSERT_NO_FATAL_FAILURE(Save(step));
  }
  EXPECT_GT(outcomes_, 500);
}

TEST_F(PowerLossTest, ASaveThatIsTakenBackLeavesTheOneBefore) {
  for (const int step : {10, 20, 30}) ASSERT_NO_FATAL_FAILURE(Save(step));
  durable_ = {20};
  EXPECT_EQ(*directory_->Withdraw(30), 20);
  ASSERT_NO_FATAL_FAILURE(Save(40));
}

}  // namespace
}  // namespace sluice::tools
