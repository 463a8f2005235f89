// A fault of each call, and a loss of power after each, while a file replaces another.
#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/new_file.h"
#include "gtest/gtest.h"
#include "tests/support/power_model.h"
#include "tests/support/temp_directory.h"

namespace sluice::base {
namespace {

constexpr std::string_view kOld = "old";
constexpr std::string_view kNew = "the new file";

struct Fault {
  int call = -1;  ///< the call that fails, from 0 on; -1: none
  int error_number = EIO;
};

/// The kernel's calls, with a name for each, a fault at one and a model of the power.
class FaultyCalls : public FileCalls {
 public:
  FaultyCalls(const std::string& path, bool nameless, Fault fault)
      : path_(path), nameless_(nameless), fault_(fault) {
    power_.AddOld(path, kOld);
  }

  int Open(const std::string& path, int flags, mode_t mode) override {
    const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
    if (nameless && !nameless_) return Refuse(EOPNOTSUPP);
    if (Fails("open")) return -1;
    const int fd = FileCalls::Open(path, flags, mode);
    if (fd < 0 || (flags & O_ACCMODE) == O_RDONLY) return fd;
    nodes_[fd] = power_.NewNode();
    if (!nameless) power_.Enter(path, nodes_[fd]);
    return fd;
  }
  ssize_t Write(int fd, const void* bytes, std::size_t size, off_t offset) override {
    if (Fails("write")) return -1;
    const std::size_t part = (size + 1) / 2;  // a short count, as long as there is more than one
    const std::string_view written(static_cast<const char*>(bytes), part);
    power_.Write(nodes_.at(fd), static_cast<std::size_t>(offset), written);
    return FileCalls::Write(fd, bytes, part, offset);
  }
  int Sync(int fd) override {
    const auto node = nodes_.find(fd);
    if (Fails(node != nodes_.end() ? "sync file" : "sync directory")) return -1;
    if (node != nodes_.end()) {
      power_.SyncFile(node->second);
    } else {
      power_.SyncDirectory(path_.substr(0, path_.rfind('/')));
    }
    return FileCalls::Sync(fd);
  }
  int Link(int fd, const std::string& path) override {
    if (Fails("link")) return -1;
    power_.Enter(path, nodes_.at(fd));
    return FileCalls::Link(fd, path);
  }
  int Rename(const std::string& from, const std::string& to) override {
    if (Fails("rename")) return -1;
    power_.Rename(from, to);
    return FileCalls::Rename(from, to);
  }
  int Unlink(const std::string& path) override {
    if (Fails("unlink")) return -1;
    power_.Remove(path);
    return FileCalls::Unlink(path);
  }
  int Close(int fd) override {
    const bool wrote = nodes_.erase(fd) > 0;
    const int result = FileCalls::Close(fd);  // the kernel closes it, whatever it answers
    return wrote && Fails("close") ? -1 : result;
  }

  const std::vector<std::string>& calls() const { return calls_; }
  /// The calls before which a loss of power left neither the old nor the new file whole.
  const std::vector<std::string>& torn() const { return torn_; }
  std::set<std::string> AfterPowerLoss() const { return power_.OutcomesOf(path_); }

 private:
  int Refuse(int error_number) {
    errno = error_number;
    return -1;
  }
  bool Fails(const char* call) {
    for (const std::string& outcome : AfterPowerLoss()) {
      if (outcome != kOld && outcome != kNew) torn_.push_back(std::string(call) + ": " + outcome);
    }
    calls_.emplace_back(call);
    if (static_cast<int>(calls_.size()) - 1 != fault_.call) return false;
    errno = fault_.error_number;
    return true;
  }

  const std::string path_;
  testing::PowerModel power_;
  const bool nameless_;
  const Fault fault_;
  std::map<int, int> nodes_;  ///< node of each descriptor that is written
  std::vector<std::string> calls_;
  std::vector<std::string> torn_;
};

struct Outcome {
  absl::Status status;
  std::string failed;  ///< the name of the call that failed
  std::vector<std::string> calls;
  std::vector<std::string> torn;
  std::string content;
  int entries = 0;
  std::set<std::string> after_power_loss;
};

absl::Status Replace(const std::string& path, FileCalls& calls) {
  auto file = NewFile::Create(path, {.calls = &calls});
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Write(std::as_bytes(std::span(kNew)));
  if (status.ok()) status = (*file)->Commit();
  // A second try does not make the first error good.
  if (!status.ok()) {
    EXPECT_EQ((*file)->Commit(), status);
  }
  return status;
}

Outcome RunWith(bool nameless, Fault fault) {
  const testing::TempDirectory directory;
  const std::string path = directory.path() + "/file";
  std::ofstream(path) << kOld;
  FaultyCalls calls(path, nameless, fault);
  Outcome outcome{.status = Replace(path, calls)};
  outcome.calls = calls.calls();
  const auto at = static_cast<std::size_t>(fault.call);
  if (fault.call >= 0 && at < outcome.calls.size()) outcome.failed = outcome.calls[at];
  outcome.torn = calls.torn();
  std::ifstream file(path);
  outcome.content = {std::istreambuf_iterator<char>(file), {}};
  outcome.entries = directory.entries();
  outcome.after_power_loss = calls.AfterPowerLoss();
  return outcome;
}

using Calls = std::vector<std::string>;

TEST(PowerModelTest, LaterWritesAndNamesMayReachTheDiskWithoutEarlierOnes) {
  testing::PowerModel power;
  const int node = power.NewNode();
  power.Write(node, 0, "ab");
  power.Write(node, 2, "cd");
  power.Enter("d/a", node);
  power.Rename("d/a", "d/b");
  const std::string hole(2, '\0');
  EXPECT_EQ(power.OutcomesOf("d/b"),
            (std::set<std::string>{"(gone)", "", "ab", "abcd", hole + "cd"}));
  power.SyncFile(node);
  EXPECT_EQ(power.OutcomesOf("d/b"), (std::set<std::string>{"(gone)", "abcd"}));
  power.SyncDirectory("other");
  EXPECT_EQ(power.OutcomesOf("d/a"), (std::set<std::string>{"(gone)", "abcd"}));
  power.SyncDirectory("d");
  EXPECT_EQ(power.OutcomesOf("d/a"), std::set<std::string>{"(gone)"});
  EXPECT_EQ(power.OutcomesOf("d/b"), std::set<std::string>{"abcd"});
}

class NewFileFaultTest : public ::testing::TestWithParam<bool> {};

TEST_P(NewFileFaultTest, TheOrderIsTheOneThatPowerLossNeeds) {
  const Outcome outcome = RunWith(GetParam(), {});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  Calls expected = {"open", "open", "write", "write", "write", "write", "sync file"};
  if (GetParam()) {  // the file gets a name, and is synced again
    for (const char* call : {"link", "sync file"}) expected.emplace_back(call);
  }
  for (const char* call : {"close", "rename", "sync directory"}) expected.emplace_back(call);
  EXPECT_EQ(outcome.calls, expected);
  EXPECT_EQ(outcome.torn, Calls());
  EXPECT_EQ(outcome.after_power_loss, std::set<std::string>{std::string(kNew)});
}

TEST_P(NewFileFaultTest, AFaultOfAnyCallLeavesTheOldFileAndNothingElse) {
  const std::size_t calls = RunWith(GetParam(), {}).calls.size();
  for (const int error_number : {EIO, ENOSPC, EDQUOT, EROFS}) {
    for (std::size_t call = 0; call < calls; ++call) {
      const Outcome outcome = RunWith(GetParam(), {static_cast<int>(call), error_number});
      const std::string where = outcome.failed + ", errno " + std::to_string(error_number);
      // A nameless file that is refused leads to a named one.
      if (GetParam() && outcome.failed == "open" && call == 1) {
        EXPECT_TRUE(outcome.status.ok()) << where;
        continue;
      }
      EXPECT_FALSE(outcome.status.ok()) << where;
      EXPECT_EQ(outcome.torn, Calls()) << where;
      EXPECT_EQ(outcome.content, outcome.failed == "sync directory" ? kNew : kOld) << where;
      EXPECT_EQ(outcome.entries, 1) << where;
    }
  }
}

/// The kinds of status decide on exit codes.
TEST_P(NewFileFaultTest, TheErrorIsTheFirstOneAndNamesTheFile) {
  const Outcome full = RunWith(GetParam(), {.call = 2, .error_number = ENOSPC});
  EXPECT_EQ(full.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.status.message().find("write /"), absl::string_view::npos) << full.status;
  const Outcome damaged = RunWith(GetParam(), {.call = 6, .error_number = EIO});
  EXPECT_EQ(damaged.status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(damaged.status.message().find("sync /"), absl::string_view::npos) << damaged.status;
}

TEST_P(NewFileFaultTest, InterruptedCallsAreNoErrors) {
  const Calls calls = RunWith(GetParam(), {}).calls;
  const std::set<std::string> interruptible = {"write", "sync file", "close", "sync directory"};
  for (std::size_t call = 0; call < calls.size(); ++call) {
    if (!interruptible.contains(calls[call])) continue;
    const Outcome outcome =
        RunWith(GetParam(), {.call = static_cast<int>(call), .error_number = EINTR});
    EXPECT_EQ(outcome.failed, calls[call]);
    EXPECT_TRUE(outcome.status.ok()) << calls[call] << ": " << outcome.status;
    EXPECT_EQ(outcome.content, kNew);
    EXPECT_EQ(outcome.after_power_loss, std::set<std::string>{std::string(kNew)});
  }
}

TEST_P(NewFileFaultTest, ADirectoryThatCannotBeSyncedIsNoError) {
  const int last = static_cast<int>(RunWith(GetParam(), {}).calls.size()) - 1;
  const Outcome outcome = RunWith(GetParam(), {.call = last, .error_number = EINVAL});
  EXPECT_EQ(outcome.failed, "sync directory");
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
}

INSTANTIATE_TEST_SUITE_P(Nameless, NewFileFaultTest, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Named, NewFileFaultTest, ::testing::Values(false));

/// A name that cannot be removed after a fault stays, and the first error is told.
TEST(NewFileUnlinkTest, AFaultOfUnlinkHidesNoOtherError) {
  class TwoFaults : public FaultyCalls {
   public:
    explicit TwoFaults(const std::string& path) : FaultyCalls(path, /*nameless=*/false, {}) {}
    int Rename(const std::string&, const std::string&) override { return Fail(EXDEV); }
    int Unlink(const std::string&) override { return Fail(EIO); }

   private:
    static int Fail(int error_number) {
      errno = error_number;
      return -1;
    }
  };
  const testing::TempDirectory directory;
  const std::string path = directory.path() + "/file";
  TwoFaults calls(path);
  const absl::Status status = Replace(path, calls);
  EXPECT_NE(status.message().find("rename to " + path), absl::string_view::npos) << status;
  EXPECT_EQ(directory.entries(), 1);
}

}  // namespace
}  // namespace sluice::base
