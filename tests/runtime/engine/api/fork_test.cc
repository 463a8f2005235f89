#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_probe.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::Pattern;
using testing::RunInChild;
using testing::RuntimeFixture;

/// A child that hangs is killed by SIGALRM, and RunInChild says so.
constexpr unsigned kHangSeconds = 60;

/// Findings of a child, one for each thing that is wrong; empty: all is as it should be.
class Findings {
 public:
  void Expect(bool condition, const std::string& what) {
    if (!condition) text_ += what + "; ";
  }
  /// The status of a call in a child.
  void ExpectRefused(const absl::Status& status, const std::string& call) {
    const bool says_why =
        status.message().find("a child makes a runtime of its own") != absl::string_view::npos;
    Expect(absl::IsFailedPrecondition(status) && says_why, call + ": " + status.ToString());
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// One of everything that a Runtime gives out, on lanes of their own, held while others work.
struct Handles {
  std::optional<Op> op;
  std::optional<Op> unended;
  std::optional<Op> waiting_op;
  std::optional<Lease> lease;
  std::optional<Ticket> granted;
  std::optional<Ticket> waiting;
  std::optional<StreamRef> stream;
  std::optional<Reservation> reservation;
};

Handles TakeHandles(Runtime& runtime, TensorId tensor) {
  Handles handles;
  const Access first{
      .tensor = tensor, .range = {0, kPage}, .mode = AccessMode::kReadWrite, .tier = kDram0};
  const Access other{.tensor = tensor, .range = {kPage, kPage}, .tier = kDram0};
  handles.op = runtime.BeginOp({.name = "holder", .lane = "holder"});
  auto lease = handles.op->Acquire(first);
  EXPECT_THAT(lease, IsOk());
  handles.lease = *std::move(lease);
  handles.granted = handles.op->AcquireAll({&other, 1});
  EXPECT_THAT(handles.granted->Wait(), IsOk());
  handles.waiting_op = runtime.BeginOp({.name = "waiter", .lane = "waiter"});
  // This ticket waits until the lease ends.
  handles.waiting = handles.waiting_op->AcquireAll({&first, 1});
  handles.unended = runtime.BeginOp({.name = "unended", .lane = "unended"});
  handles.stream = runtime.CreateStream().value();
  handles.reservation = runtime.Reserve(kDram0, Bytes(kPage)).value();
  return handles;
}

void UseRuntime(Runtime& runtime, TensorId tensor, Findings* found) {
  const TensorSpec spec = ByteTensor("child's", kPage);
  const std::vector<std::byte> bytes(kPage);
  bool deleted = false;
  found->ExpectRefused(runtime.CreateTensors({&spec, 1}).status(), "CreateTensors");
  found->ExpectRefused(runtime.CreateTensor(spec).status(), "CreateTensor");
  found->ExpectRefused(runtime.Adopt(spec, bytes, [&deleted] { deleted = true; }).status(),
                       "Adopt");
  found->Expect(!deleted, "Adopt called its deleter");
  found->ExpectRefused(runtime.Free(tensor), "Free");
  found->ExpectRefused(runtime.Discard(tensor), "Discard");
  found->ExpectRefused(runtime.SizeOfTensor(tensor).status(), "SizeOfTensor");
  found->ExpectRefused(runtime.NameOfTensor(tensor).status(), "NameOfTensor");
  found->ExpectRefused(runtime.BeginIteration("child"), "BeginIteration");
  found->ExpectRefused(runtime.EndIteration(), "EndIteration");
  const Access access{.tensor = tensor, .tier = kDram0};
  found->ExpectRefused(runtime.Prefetch({&access, 1}), "Prefetch");
  found->ExpectRefused(runtime.Reserve(kDram0, Bytes(kPage)).status(), "Reserve");
  found->ExpectRefused(runtime.SetBudget(kDram0, Bytes(16 * kPage)), "SetBudget");
  found->ExpectRefused(runtime.SetEmulatedRates(0, 0), "SetEmulatedRates");
  found->ExpectRefused(runtime.CreateStream().status(), "CreateStream");
  found->ExpectRefused(runtime.RecordedSchedule("key").status(), "RecordedSchedule");
  found->Expect(runtime.Health().state == HealthState::kDead, "Health");
  found->Expect(runtime.GetStats().links.empty(), "GetStats");
  Op op = runtime.BeginOp({.name = "child's"});
  Ticket ticket = op.AcquireAll({&access, 1});
  found->Expect(ticket.Ready(), "a child's ticket is ready");
  found->ExpectRefused(ticket.Take().status(), "Take of a child's op");
}

void UseHandles(Handles& handles, TensorId tensor, Findings* found) {
  const Access access{.tensor = tensor, .tier = kDram0};
  found->ExpectRefused(handles.op->Acquire(access).status(), "Acquire");
  for (Ticket* ticket : {&*handles.granted, &*handles.waiting}) {
    found->Expect(ticket->Ready(), "Ready");
    found->ExpectRefused(ticket->Wait(), "Wait");
    found->ExpectRefused(ticket->Take().status(), "Take");
    ticket->Cancel();
    found->ExpectRefused(ticket->Take().status(), "Take after Cancel");
  }
  found->ExpectRefused(handles.stream->WaitOn(*handles.granted), "WaitOn");
  bool ran = false;
  handles.stream->Enqueue([&ran] { ran = true; });
  handles.stream->Synchronize();
  found->Expect(!ran, "a stream runs in a child");
  found->Expect(handles.lease->tensor() == tensor, "a lease's facts");
  found->Expect(!testing::IsReadable(handles.lease->Spans()[0].data()), "a frame is there");
  found->Expect(!testing::IsReadable(handles.lease->Contiguous().data()), "a mapping is there");
  found->Expect(!testing::IsReadable(handles.reservation->Spans()[0].data()),
                "a reserved frame is there");
}

/// Ends everything in the ways that there are.
void EndHandles(Handles& handles) {
  handles.unended->EndAfter(*handles.stream).IgnoreError();
  handles.stream->ReleaseAfter(*std::move(handles.lease)).IgnoreError();
  handles.lease.reset();
  handles.granted.reset();
  handles.waiting = Ticket();
  handles.op->End();
  handles.op.reset();
  handles.waiting_op.reset();
  handles.reservation.reset();
  handles.stream.reset();
}

/// Makes every call that a child can make on the parent's runtime, and then destroys it.
std::string MisuseInChild(RuntimeFixture& runtime, Handles& handles, TensorId tensor) {
  alarm(kHangSeconds);
  Findings found;
  UseRuntime(*runtime, tensor, &found);
  UseHandles(handles, tensor, &found);
  EndHandles(handles);
  runtime.Stop();
  return found.text();
}

enum class Engine { kUring, kThreads };

class ForkTest : public ::testing::TestWithParam<Engine> {
 protected:
  /// Starts the runtime. Returns the reason why the machine lacks the engine; empty if it has it.
  std::string StartWith(Engine engine) {
    if (engine == Engine::kThreads) runtime_.options.io.io_uring = Use::kOff;
    runtime_.Start();
    if (::testing::Test::HasFatalFailure()) return "no runtime";
    const std::string name = runtime_->GetStats().io.engine;
    const bool as_wanted = name == (engine == Engine::kUring ? "io_uring" : "threads");
    return as_wanted ? "" : "io_uring is refused here";
  }

  RuntimeFixture runtime_;
};

INSTANTIATE_TEST_SUITE_P(Engines,
                         ForkTest,
                         ::testing::Values(Engine::kUring, Engine::kThreads),
                         [](const auto& engine) {
                           return engine.param == Engine::kUring ? "Uring" : "Threads";
                         });

TEST_P(ForkTest, AChildIsRefusedEverythingAndHarmsNothing) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  if (const std::string why = StartWith(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const TensorId tensor = runtime_.Make("t", 80 * kPage);
  const std::vector<std::byte> bytes = Pattern(1, 80 * kPage);
  runtime_.Write(tensor, bytes);
  Handles handles = TakeHandles(*runtime_, tensor);
  EXPECT_EQ(RunInChild([&] { return MisuseInChild(runtime_, handles, tensor); }), "");
  EXPECT_FALSE(handles.waiting->Ready()) << "the lease is held as before";
  EXPECT_EQ(handles.lease->Contiguous()[0], bytes[0]);
  EXPECT_NE(runtime_->Health().state, HealthState::kDead);
  EndHandles(handles);
  EXPECT_EQ(runtime_.Read(tensor), bytes);
}

/// Rewrites a tensor that is larger than the memory, parts of several pages at a time, and verifies
/// what it wrote before. Threads: Run on one of its own.
class Load {
 public:
  static constexpr std::uint64_t kPages = 120;
  static constexpr std::uint64_t kPagesPerOp = 6;

  Load(Runtime& runtime, TensorId tensor) : runtime_(runtime), tensor_(tensor) {}

  void Run() {
    while (!stop_) {
      const std::uint64_t part = ops_ % (kPages / kPagesPerOp);
      ASSERT_NO_FATAL_FAILURE(
          Rewrite({part * kPagesPerOp * kPage, kPagesPerOp * kPage}, ops_ * kPagesPerOp / kPages));
      ++ops_;
    }
  }
  void Stop() { stop_ = true; }
  /// Blocks until `ops` more ops have ended.
  void WaitForMore(std::uint64_t ops) const {
    const std::uint64_t until = ops_ + ops;
    while (ops_ < until && !::testing::Test::HasFailure()) std::this_thread::yield();
  }
  /// The whole tensor as it must be. REQUIRES: stopped.
  std::vector<std::byte> Expected() const {
    std::vector<std::byte> all;
    const std::uint64_t parts = kPages / kPagesPerOp;
    for (std::uint64_t part = 0; part < parts; ++part) {
      const bool written = part < ops_ % parts;
      const std::uint64_t rounds = ops_ / parts + (written ? 1 : 0);
      const std::vector<std::byte> bytes = ContentOf(part * kPagesPerOp * kPage, rounds);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

 private:
  /// Zeros before the first round.
  static std::vector<std::byte> ContentOf(std::uint64_t offset, std::uint64_t rounds) {
    if (rounds == 0) return std::vector<std::byte>(kPagesPerOp * kPage);
    return Pattern(rounds * 1000003 + offset, kPagesPerOp * kPage);
  }

  void Rewrite(ByteRange range, std::uint64_t round) {
    Op op = runtime_.BeginOp({.name = "load", .lane = "load"});
    const Access access{
        .tensor = tensor_, .range = range, .mode = AccessMode::kReadWrite, .tier = kHbm0};
    const auto lease = op.Acquire(access);
    ASSERT_THAT(lease, IsOk());
    const std::span<std::byte> bytes = lease->Contiguous();
    const std::vector<std::byte> before = ContentOf(range.offset, round);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), before.begin(), before.end()))
        << "offset " << range.offset << " round " << round;
    const std::vector<std::byte> after = ContentOf(range.offset, round + 1);
    std::copy(after.begin(), after.end(), bytes.begin());
  }

  Runtime& runtime_;
  const TensorId tensor_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> ops_ = 0;
};

TEST_P(ForkTest, ChildrenInTheMiddleOfTransfersHarmNothing) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  if (const std::string why = StartWith(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const TensorId tensor = runtime_.Make("held", 2 * kPage);
  Handles handles = TakeHandles(*runtime_, tensor);
  const TensorId moving = runtime_.Make("moving", Load::kPages * kPage);
  Load load(*runtime_, moving);
  std::thread worker([&load] { load.Run(); });
  constexpr int kChildren = 60;
  for (int i = 0; i < kChildren && !HasFailure(); ++i) {
    load.WaitForMore(3);
    EXPECT_EQ(RunInChild([&] { return MisuseInChild(runtime_, handles, tensor); }), "")
        << "child " << i;
  }
  load.WaitForMore(2 * Load::kPages / Load::kPagesPerOp);
  load.Stop();
  worker.join();
  EndHandles(handles);
  EXPECT_EQ(runtime_.Read(moving), load.Expected());
  EXPECT_EQ(runtime_.Read(tensor), std::vector<std::byte>(2 * kPage));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_EQ(runtime_->GetStats().io.checksum_failures, 0u);
}

/// The exit status of a child that runs `body` and then calls exit(); 128 + the signal it died of.
int ExitOfChild(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kHangSeconds);
    prctl(PR_SET_DUMPABLE, 0);  // no core file
    body();
    std::exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_P(ForkTest, AChildThatExitsRunsTheDestructorsOfItsGlobals) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  if (const std::string why = StartWith(GetParam()); !why.empty()) GTEST_SKIP() << why;
  // exit() destroys these, as it does a program's globals.
  static std::vector<std::shared_ptr<void>> globals;
  const TensorId tensor = runtime_.Make("t", 80 * kPage);
  const std::vector<std::byte> bytes = Pattern(2, 80 * kPage);
  runtime_.Write(tensor, bytes);
  auto handles = std::make_shared<Handles>(TakeHandles(*runtime_, tensor));
  globals.push_back(std::shared_ptr<void>(
      &runtime_, [](void* runtime) { static_cast<RuntimeFixture*>(runtime)->Stop(); }));
  globals.push_back(handles);
  handles.reset();
  const TensorId moving = runtime_.Make("moving", Load::kPages * kPage);
  Load load(*runtime_, moving);
  std::thread worker([&load] { load.Run(); });
  for (int i = 0; i < 10 && !HasFailure(); ++i) {
    load.WaitForMore(3);
    EXPECT_EQ(ExitOfChild([] {}), 0);
  }
  load.Stop();
  worker.join();
  globals.back().reset();
  EXPECT_EQ(runtime_.Read(moving), load.Expected());
  EXPECT_EQ(runtime_.Read(tensor), bytes);
  globals.clear();  // stops the runtime of this process
}

TEST(ForkChildTest, TheBytesOfALeaseAreNotThereInAChild) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  auto lease = runtime.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  for (std::byte* bytes : {lease->Contiguous().data(), lease->Spans()[0].data()}) {
    bytes[0] = std::byte{7};
    EXPECT_EQ(ExitOfChild([bytes] { bytes[0] = std::byte{8}; }), 128 + SIGSEGV);
    EXPECT_EQ(bytes[0], std::byte{7});
  }
}

TEST(ForkChildTest, AChildMakesARuntimeOfItsOwn) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  RuntimeFixture parent;
  parent.Start();
  const std::vector<std::byte> bytes = Pattern(3, 80 * kPage);
  const TensorId tensor = parent.Make("parent's", bytes.size());
  parent.Write(tensor, bytes);
  const std::string text = RunInChild([&]() -> std::string {
    alarm(kHangSeconds);
    const std::vector<std::byte> other = Pattern(4, bytes.size());
    RuntimeFixture child;
    child.Start();
    if (::testing::Test::HasFailure()) return "no runtime";
    const TensorId own = child.Make("child's", other.size());
    child.Write(own, other);
    const bool same = child.Read(own) == other;
    child.Stop();
    return same && !::testing::Test::HasFailure() ? "" : "the child's bytes are wrong";
  });
  EXPECT_EQ(text, "");
  EXPECT_EQ(parent.Read(tensor), bytes);
}

}  // namespace
}  // namespace sluice
