// A directory of saves: its lock, what a killed run left, and the order in which older saves go.
#include "tools/train/state/state_directory.h"

#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <functional>
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

namespace fs = std::filesystem;
using sluice::testing::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Notes the calls, by the last part of a path, and fails the call of a number.
class FailingCalls : public StateCalls {
 public:
  int Open(const std::string& path, int flags, mode_t mode) override {
    return StateCalls::Open(path, flags, mode);
  }
  int Sync(int fd) override { return Note("sync", "") ? StateCalls::Sync(fd) : -1; }
  int Unlink(const std::string& path) override {
    return Note("unlink ", path) ? StateCalls::Unlink(path) : -1;
  }
  int MakeDirectory(const std::string& path, mode_t mode) override {
    return Note("mkdir ", path) ? StateCalls::MakeDirectory(path, mode) : -1;
  }
  int RemoveDirectory(const std::string& path) override {
    return Note("rmdir ", path) ? StateCalls::RemoveDirectory(path) : -1;
  }

  std::vector<std::string> calls;
  int fails_at = -1;  ///< number of the call that fails

 private:
  bool Note(const std::string& what, const fs::path& path) {
    const bool works = static_cast<int>(calls.size()) != fails_at;
    calls.push_back(what + path.filename().string());
    if (!works) errno = EIO;
    return works;
  }
};

class StateDirectoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<StateDirectory> Open() {
    auto opened = StateDirectory::Open({.path = path_, .calls = &calls_});
    EXPECT_THAT(opened, IsOk());
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::string Refusal(const std::string& path) {
    const auto opened = StateDirectory::Open({.path = path});
    EXPECT_FALSE(opened.ok());
    return std::string(opened.status().message());
  }
  void WriteSave(const std::string& name) {
    fs::create_directories(path_ + "/" + name);
    files_.Write("state/" + name + "/optimizer.sluice", name);
  }
  absl::Status Save(StateDirectory& directory, int step) {
    const absl::StatusOr<std::string> path = directory.BeginSave(step);
    if (!path.ok()) return path.status();
    WriteSave(SaveName(step));
    return directory.EndSave(step);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory files_;
  const std::string path_ = files_ / "state";
  FailingCalls calls_;
};

TEST_F(StateDirectoryTest, OneThatWasMadeAndTookNoSaveIsRemoved) {
  EXPECT_NE(Open(), nullptr);
  EXPECT_FALSE(fs::exists(path_));
  {
    const auto opened = Open();
    ASSERT_NE(opened, nullptr);
    EXPECT_THAT(opened->BeginSave(7), IsOk());
  }
  EXPECT_THAT(Names(), ElementsAre("lock", "step-0000007"));
  fs::remove_all(path_);
  fs::create_directory(path_);
  EXPECT_NE(Open(), nullptr);
  EXPECT_TRUE(fs::exists(path_)) << "it was there before";
}

TEST_F(StateDirectoryTest, TheDirectoryIsMadeButNotItsParents) {
  {
    const auto made = Open();
    EXPECT_NE(made, nullptr);
    EXPECT_THAT(calls_.calls, ElementsAre("mkdir state", "sync"));
  }
  fs::create_directory(path_);
  EXPECT_NE(Open(), nullptr) << "the directory may be there";
  EXPECT_EQ(Refusal(files_ / "no/state/"),
            files_ / "no" + " does not exist, so " + (files_ / "no/state/") +
                " cannot be made in it; make it first");
  EXPECT_THAT(Refusal(files_.Write("file", "")), HasSubstr("is no directory"));
  EXPECT_THAT(Refusal(files_ / "file/state"), HasSubstr("is no directory"));
}

TEST_F(StateDirectoryTest, ASecondHolderIsRefusedAndToldWhoTheFirstIs) {
  auto first = Open();
  EXPECT_THAT(Refusal(path_),
              AllOf(HasSubstr("another run saves there: process " + std::to_string(getpid())),
                    HasSubstr(path_ + "/lock locked"),
                    HasSubstr("name another directory")));
  first.reset();
  EXPECT_NE(Open(), nullptr);
}

/// Another run begins in a directory that was just made.
TEST_F(StateDirectoryTest, TheOneThatIsRefusedRemovesNothingOfTheHolder) {
  struct Beside : StateCalls {
    int Sync(int fd) override {
      if (begin) std::exchange(begin, nullptr)();
      return StateCalls::Sync(fd);
    }
    std::function<void()> begin;
  } calls;
  std::unique_ptr<StateDirectory> holder;
  calls.begin = [&] { holder = Open(); };
  const auto refused = StateDirectory::Open({.path = path_, .calls = &calls});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_NE(holder, nullptr);
  EXPECT_THAT(Names(), ElementsAre("lock"));
  EXPECT_THAT(Refusal(path_), HasSubstr("another run saves there"));
}

TEST_F(StateDirectoryTest, ALockWhoseFileWasRemovedIsTakenOfTheNextFile) {
  fs::create_directory(path_);
  int removed = 0;
  const auto flock = [&](int fd, int operation) {
    if (removed++ < 3) fs::remove(path_ + "/lock");
    return ::flock(fd, operation);
  };
  const auto opened = StateDirectory::Open({.path = path_, .flock = flock});
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(removed, 4);
  EXPECT_THAT(Refusal(path_), HasSubstr("another run saves there"));
}

TEST_F(StateDirectoryTest, WithoutLocksNothingIsRemoved) {
  fs::create_directories(path_ + "/step-0000007");
  const auto flock = [](int, int) {
    errno = ENOLCK;
    return -1;
  };
  const auto opened = StateDirectory::Open({.path = path_, .flock = flock});
  ASSERT_THAT(opened, IsOk());
  EXPECT_FALSE((*opened)->lock().held());
  EXPECT_THAT((*opened)->lock().why_not(), HasSubstr("ENOLCK"));
  EXPECT_THAT(Names(), ElementsAre("lock", "step-0000007"));
  const auto fails = [](int, int) {
    errno = EIO;
    return -1;
  };
  EXPECT_EQ(StateDirectory::Open({.path = path_, .flock = fails}).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(StateDirectoryTest, OnlyFilesOfAKilledRunAreRemoved) {
  const std::string partial = "/.sluice-0123456789abcdef.partial";
  for (const char* name : {"step-0000007", "step-0000008", "step-7", "step-0000009", "other"}) {
    fs::create_directories(path_ + "/" + name);
  }
  WriteSave("step-0000006");
  files_.Write("state/step-0000006" + partial, "");
  files_.Write("state/step-0000007" + partial, "");
  files_.Write("state/step-0000008/mine", "");
  files_.Write("state/other" + partial, "");
  fs::create_directory_symlink(path_ + "/other", path_ + "/step-0000010");
  EXPECT_THAT(Open()->removed(), ElementsAre("step-0000009", "step-0000007"));
  EXPECT_THAT(
      Names(),
      ElementsAre("lock", "other", "step-0000006", "step-0000008", "step-0000010", "step-7"));
  EXPECT_FALSE(fs::exists(path_ + "/step-0000006" + partial));
  EXPECT_TRUE(fs::exists(path_ + "/other" + partial));
  EXPECT_TRUE(fs::exists(path_ + "/step-0000008/mine"));
}

TEST_F(StateDirectoryTest, TheLastTwoSavesAreKept) {
  const auto directory = Open();
  for (const int step : {10, 20, 30, 40}) EXPECT_THAT(Save(*directory, step), IsOk());
  EXPECT_THAT(Names(), ElementsAre("lock", "step-0000030", "step-0000040"));
}

TEST_F(StateDirectoryTest, AnOlderSaveGoesOnceTheNewerIsDurable) {
  const auto directory = Open();
  for (const int step : {10, 20}) EXPECT_THAT(Save(*directory, step), IsOk());
  calls_.calls.clear();
  EXPECT_THAT(Save(*directory, 30), IsOk());
  EXPECT_THAT(
      calls_.calls,
      ElementsAre("mkdir step-0000030", "sync", "unlink optimizer.sluice", "rmdir step-0000010"));
}

/// Each call fails once: two whole saves are there all the same, and the next save mends the rest.
TEST_F(StateDirectoryTest, AFaultAtAnyCallCostsNoSaveThatWasGood) {
  for (int call = 0; call < 4; ++call) {
    fs::remove_all(path_);
    calls_.fails_at = -1;
    const auto directory = Open();
    for (const int step : {10, 20}) ASSERT_THAT(Save(*directory, step), IsOk());
    calls_.fails_at = static_cast<int>(calls_.calls.size()) + call;
    EXPECT_FALSE(Save(*directory, 30).ok()) << call;
    EXPECT_TRUE(fs::exists(path_ + "/step-0000020/optimizer.sluice")) << call;
    EXPECT_EQ(fs::exists(path_ + "/step-0000010/optimizer.sluice"), call < 3) << call;
    EXPECT_EQ(fs::exists(path_ + "/step-0000030/optimizer.sluice"), call > 0) << call;
    EXPECT_THAT(Save(*directory, 40), IsOk());
    EXPECT_THAT(Save(*directory, 50), IsOk());
    EXPECT_THAT(Names(), ElementsAre("lock", "step-0000040", "step-0000050"));
  }
}

TEST_F(StateDirectoryTest, ASaveThatWasPassedOverStaysUntilTheRunGetsThere) {
  for (const char* name : {"step-0000010", "step-0000020", "step-0000030", "step-0000040"}) {
    WriteSave(name);
  }
  const auto directory = Open();
  directory->OnResumed(30);
  EXPECT_THAT(Names(),
              ElementsAre("lock", "step-0000010", "step-0000020", "step-0000030", "step-0000040"));
  EXPECT_THAT(Save(*directory, 35), IsOk());
  EXPECT_THAT(Names(), ElementsAre("lock", "step-0000030", "step-0000035", "step-0000040"));
  EXPECT_THAT(Save(*directory, 40), IsOk());
  EXPECT_THAT(Save(*directory, 45), IsOk());
  EXPECT_THAT(Names(), ElementsAre("lock", "step-0000040", "step-0000045"));
}

TEST_F(StateDirectoryTest, SavesAreListedFromTheNewestOn) {
  WriteSave("step-0000010");
  WriteSave("step-12345678");
  WriteSave("step-12");
  fs::create_directories(path_ + "/step-0000040");
  const auto saves = ListSaves(path_);
  ASSERT_THAT(saves, IsOk());
  ASSERT_EQ(saves->size(), 2u);
  EXPECT_EQ((*saves)[0].step, 12345678);
  EXPECT_EQ((*saves)[1].directory, path_ + "/step-0000010");
  files_.Write("state/optimizer.sluice", "");
  EXPECT_EQ(ListSaves(path_)->front().step, -1);
  EXPECT_THAT(Refusal(path_), HasSubstr("is a save of --save-state; to go on from it"));
}

}  // namespace
}  // namespace sluice::tools
