// A fault of each call of the operating system while a save is written beside steps: updates go on,
// the save of before stays, nothing is left behind, and the handle tells.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_calls.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/runtime/optim/save_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::internal {

class OptimizerAccess {
 public:
  static void SetFileCalls(OffloadedOptimizer& optimizer, base::FileCalls* calls) {
    optimizer.impl_->saves_.SetFileCalls(calls);
  }
};

}  // namespace sluice::internal

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;
using sluice::testing::TempDirectory;

/// The kernel's calls, of which one fails, or writes less than it was asked to. Threads: any.
class CountedCalls : public base::FileCalls {
 public:
  /// The number of the call that fails; -1: none.
  explicit CountedCalls(int fails = -1) : fails_(fails) {}

  ssize_t Write(int fd, const void* bytes, std::size_t size, off_t offset) override {
    if (Fails("write")) return -1;
    if (held_.valid()) held_.wait();
    const bool in_part = size > 1 && ++writes_ % 5 == 0;
    return FileCalls::Write(fd, bytes, in_part ? size / 2 : size, offset);
  }
  int Sync(int fd) override { return Fails("sync") ? -1 : FileCalls::Sync(fd); }
  int StartWriteback(int fd) override {
    return Fails("writeback") ? -1 : FileCalls::StartWriteback(fd);
  }
  int Link(int fd, const std::string& path) override {
    return Fails("link") ? -1 : FileCalls::Link(fd, path);
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Fails("rename") ? -1 : FileCalls::Rename(from, to);
  }
  int Close(int fd) override {
    const int result = FileCalls::Close(fd);
    return Fails("close") ? -1 : result;
  }

  /// Writes wait for it from now on.
  void HoldWrites(std::shared_future<void> until) { held_ = std::move(until); }
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  bool Fails(const char* call) {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back(call);
    if (static_cast<int>(calls_.size()) - 1 != fails_) return false;
    errno = fails_ % 2 == 0 ? EIO : ENOSPC;
    return true;
  }

  const int fails_;
  std::shared_future<void> held_;
  int writes_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
};

class SaveFaultTest : public ::testing::Test {
 protected:
  SaveFaultTest() { runtime_.Start(); }

  static PagedModel::Options Options() {
    return {.spec = {.state = StateType::k8Bit}, .groups = {{20000, 10}, {3000}}};
  }
  void Step(PagedModel& model) {
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(model.optimizer().step());
  }

  struct Attempt {
    absl::Status status;
    std::vector<std::string> calls;
  };
  /// A save and a step beside it, where the call fails (-1: none does).
  Attempt SaveBesideAStep(PagedModel& model, int fails) {
    CountedCalls calls(fails);
    internal::OptimizerAccess::SetFileCalls(model.optimizer(), &calls);
    absl::StatusOr<SaveHandle> save = model.optimizer().StartSave(directory_.path());
    Step(model);
    Attempt attempt{.status = save.ok() ? save->Wait() : save.status()};
    internal::OptimizerAccess::SetFileCalls(model.optimizer(), nullptr);
    // The thread of the save has let go of the calls by then.
    attempt.calls = calls.calls();
    return attempt;
  }

  TempDirectory directory_;
  RuntimeFixture runtime_;
};

TEST_F(SaveFaultTest, ASaveThatFailsAnywhereLeavesTheOneOfBeforeAndHindersNoUpdate) {
  PagedModel model(runtime_, Options());
  Step(model);
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  const int total = static_cast<int>(SaveBesideAStep(model, -1).calls.size());
  const std::string before = ReadSaveFile(directory_.path());
  // The last two are of the directory, once the file has its name.
  for (int fails = 0; fails < total - 2; fails += fails < 8 || fails > total - 12 ? 1 : 7) {
    const Attempt attempt = SaveBesideAStep(model, fails);
    const std::string& call = attempt.calls[static_cast<std::size_t>(fails)];
    EXPECT_FALSE(attempt.status.ok()) << call << " " << fails;
    EXPECT_EQ(model.Paged(), model.Reference());
    EXPECT_EQ(directory_.entries(), 1) << call << " " << fails;
    EXPECT_EQ(ReadSaveFile(directory_.path()), before) << call << " " << fails;
  }
  const Attempt unsynced = SaveBesideAStep(model, total - 2);
  EXPECT_NE(unsynced.status.message().find("sync "), absl::string_view::npos) << unsynced.status;
  EXPECT_THAT(OffloadedOptimizer::VerifySave(directory_.path()), IsOk());
}

/// The update must wait while the first part is being written.
TEST_F(SaveFaultTest, NoPartIsUpdatedBeforeItIsWritten) {
  PagedModel model(runtime_, Options());
  Step(model);
  const auto old = model.Paged();
  CountedCalls calls;
  internal::OptimizerAccess::SetFileCalls(model.optimizer(), &calls);
  SaveHandle save = model.optimizer().StartSave(directory_.path()).value();
  const int before = static_cast<int>(calls.calls().size());
  std::promise<void> released;
  calls.HoldWrites(released.get_future().share());
  ASSERT_THAT(model.optimizer().GradientReady(model.group(0)), IsOk());
  while (static_cast<int>(calls.calls().size()) == before) std::this_thread::yield();
  // An update that did not wait would be over by the time that all this takes.
  EXPECT_EQ(model.optimizer().State(model.parameter(0))->step, 1);
  EXPECT_FALSE(save.HasEveryPart());
  released.set_value();
  ASSERT_THAT(model.optimizer().GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(model.optimizer().Step()->Wait(), IsOk());
  ASSERT_THAT(save.Wait(), IsOk());
  model.Recreate();
  ASSERT_THAT(model.optimizer().Load(directory_.path()), IsOk());
  EXPECT_EQ(model.Paged(), old);
}

/// The order that power loss needs: all writes, the file's sync, names, the directory's sync.
TEST_F(SaveFaultTest, TheFileIsSyncedBeforeItHasANameAndTheDirectoryAfter) {
  PagedModel model(runtime_, Options());
  CountedCalls calls;
  internal::OptimizerAccess::SetFileCalls(model.optimizer(), &calls);
  SaveHandle save = model.optimizer().StartSave(directory_.path()).value();
  Step(model);
  ASSERT_THAT(save.Wait(), IsOk());
  std::vector<std::string> all = calls.calls();
  const auto first = std::find(all.begin(), all.end(), "sync");
  EXPECT_EQ(std::count(all.begin(), first, "write"), first - all.begin());
  EXPECT_EQ((std::vector<std::string>(first, all.end())),
            (std::vector<std::string>{"sync", "link", "sync", "close", "rename", "sync", "close"}));
}

TEST(SaveStateTest, WorkThatWasNotSubmittedIsNotWaitedFor) {
  const auto state = internal::SaveState::Create(nullptr, {}, 1);
  state->Fail(absl::CancelledError("stopped"));
  state->WaitFor(0);
  EXPECT_TRUE(state->failed());
}

}  // namespace
}  // namespace sluice::optim
