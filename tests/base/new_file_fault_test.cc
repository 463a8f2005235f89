// A fault of each call, and a loss of power after each, while a file replaces another.
#include <fcntl.h>

#include <algorithm>
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
#include "tests/support/temp_directory.h"

namespace sluice::base {
namespace {

constexpr std::string_view kOld = "old";
constexpr std::string_view kNew = "the new file";

/// A disk with a cache that loses power: bytes that were not synced are gone, and of the changes of
/// the directory that were not synced any part may have reached the disk.
class PowerModel {
 public:
  explicit PowerModel(std::string path) : path_(std::move(path)) {
    files_[0] = {.written = std::string(kOld), .synced = std::string(kOld)};
    names_[path_] = 0;
  }

  int NewNode() {
    files_.emplace_back();
    return static_cast<int>(files_.size()) - 1;
  }
  void Write(int node, std::size_t offset, std::string_view bytes) {
    std::string& written = files_[Index(node)].written;
    written.resize(std::max(written.size(), offset + bytes.size()));
    written.replace(offset, bytes.size(), bytes);
  }
  void SyncFile(int node) { files_[Index(node)].synced = files_[Index(node)].written; }
  void Enter(const std::string& name, int node) { changes_.push_back({.to = name, .node = node}); }
  void Rename(const std::string& from, const std::string& to) {
    changes_.push_back({.from = from, .to = to, .node = NodeOf(from)});
  }
  void SyncDirectory() {
    Apply(names_, (1U << changes_.size()) - 1);
    changes_.clear();
  }

  /// What the name may hold after a loss of power now.
  std::set<std::string> Outcomes() const {
    std::set<std::string> outcomes;
    for (unsigned kept = 0; kept < 1U << changes_.size(); ++kept) {
      Names names = names_;
      Apply(names, kept);
      const auto found = names.find(path_);
      outcomes.insert(found == names.end() ? "(gone)" : files_[Index(found->second)].synced);
    }
    return outcomes;
  }

 private:
  using Names = std::map<std::string, int>;
  struct Node {
    std::string written;
    std::string synced;
  };
  struct Change {
    std::string from;
    std::string to;
    int node = 0;
  };

  static std::size_t Index(int node) { return static_cast<std::size_t>(node); }
  int NodeOf(const std::string& name) const {
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      if (change->to == name) return change->node;
    }
    return names_.at(name);
  }
  void Apply(Names& names, unsigned kept) const {
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if ((kept >> i & 1U) == 0) continue;
      names.erase(changes_[i].from);
      names[changes_[i].to] = changes_[i].node;
    }
  }

  const std::string path_;
  std::vector<Node> files_ = std::vector<Node>(1);
  Names names_;
  std::vector<Change> changes_;
};

struct Fault {
  int call = -1;  ///< the call that fails, from 0 on; -1: none
  int error_number = EIO;
};

/// The kernel's calls, with a name for each, a fault at one and a model of the power.
class FaultyCalls : public FileCalls {
 public:
  FaultyCalls(const std::string& path, bool nameless, Fault fault)
      : power_(path), nameless_(nameless), fault_(fault) {}

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
      power_.SyncDirectory();
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
    return Fails("unlink") ? -1 : FileCalls::Unlink(path);
  }
  int Close(int fd) override {
    const bool wrote = nodes_.erase(fd) > 0;
    const int result = FileCalls::Close(fd);  // the kernel closes it, whatever it answers
    return wrote && Fails("close") ? -1 : result;
  }

  const std::vector<std::string>& calls() const { return calls_; }
  /// The calls before which a loss of power left neither the old nor the new file whole.
  const std::vector<std::string>& torn() const { return torn_; }
  PowerModel& power() { return power_; }

 private:
  int Refuse(int error_number) {
    errno = error_number;
    return -1;
  }
  bool Fails(const char* call) {
    for (const std::string& outcome : power_.Outcomes()) {
      if (outcome != kOld && outcome != kNew) torn_.push_back(std::string(call) + ": " + outcome);
    }
    calls_.emplace_back(call);
    if (static_cast<int>(calls_.size()) - 1 != fault_.call) return false;
    errno = fault_.error_number;
    return true;
  }

  PowerModel power_;
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
  outcome.after_power_loss = calls.power().Outcomes();
  return outcome;
}

using Calls = std::vector<std::string>;

class NewFileFaultTest : public ::testing::TestWithParam<bool> {};

TEST_P(NewFileFaultTest, TheOrderIsTheOneThatPowerLossNeeds) {
  const Outcome outcome = RunWith(GetParam(), {});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  Calls expected = {"open", "open", "write", "write", "write", "write", "sync file"};
  if (GetParam()) {  // once more, with a name
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
