// Kernels that refuse io_uring or its requests, and limits of the process: real ones, in a child.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <future>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/drives/disk_rates.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::PageBuffer;
using testing::Refuse;
using testing::RefuseSystemCall;
using testing::RunInChild;

constexpr std::uint64_t kRefusedPage = 65536;
constexpr SlotIndex kRefusedSlots = 8;

PageStoreOptions OptionsIn(const testing::TempDirectory& temp) {
  return {.directory = temp.path(), .page_bytes = kRefusedPage, .slots = kRefusedSlots};
}

absl::Status WriteSlot(PageStore& store, SlotIndex slot) {
  PageBuffer page(kRefusedPage);
  page.Fill(slot);
  auto done = std::make_shared<std::promise<absl::Status>>();
  store.Write(
      slot, {1, slot, 1}, page.span(), [done](absl::Status s) { done->set_value(std::move(s)); });
  return done->get_future().get();
}

/// Reads the slot. Returns "ok", or the error.
std::string ReadSlot(PageStore& store, SlotIndex slot) {
  PageBuffer page(kRefusedPage);
  auto done = std::make_shared<std::promise<absl::Status>>();
  store.Read(
      slot, {1, slot, 1}, page.span(), [done](absl::Status s) { done->set_value(std::move(s)); });
  const absl::Status status = done->get_future().get();
  if (!status.ok()) return status.ToString();
  return page.Holds(slot) ? "ok" : "wrong bytes";
}

/// Engine, reason, and whether a page survives the way there and back.
std::string TryStore(const PageStoreOptions& options) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  const absl::Status wrote = WriteSlot(**store, 3);
  const PageStoreStats stats = (*store)->stats();
  return fmt::format(
      "{} [{}] {} {}", stats.engine, stats.engine_reason, wrote.ToString(), ReadSlot(**store, 3));
}

/// Text like "EPERM (Operation not permitted)". Errors of the limit of locked memory also name that
/// limit.
std::string WhyRefused(int error_number) {
  const char* const limit =
      ": the limit of locked memory (ulimit -l) counts it without CAP_IPC_LOCK";
  return fmt::format("{} ({}){}",
                     strerrorname_np(error_number),
                     strerrordesc_np(error_number),
                     error_number == ENOMEM ? limit : "");
}

class RefusedSetup : public ::testing::TestWithParam<int> {};

TEST_P(RefusedSetup, FallsBackToThreadsAndSaysWhy) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&] {
    const std::string failed = RefuseSystemCall(SYS_io_uring_setup, GetParam(), Refuse::kEveryCall);
    return failed.empty() ? TryStore(OptionsIn(temp)) : failed;
  });
  EXPECT_EQ(text, fmt::format("threads [io_uring_queue_init: {}] OK ok", WhyRefused(GetParam())));
}

TEST_P(RefusedSetup, IsAnErrorWhenRequired) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&] {
    const std::string failed = RefuseSystemCall(SYS_io_uring_setup, GetParam(), Refuse::kEveryCall);
    PageStoreOptions options = OptionsIn(temp);
    options.io_uring = Use::kRequire;
    return failed.empty() ? TryStore(options) : failed;
  });
  EXPECT_EQ(text,
            fmt::format("FAILED_PRECONDITION: io_uring is required but refused: "
                        "io_uring_queue_init: {}; io.io_uring = \"auto\" allows pread "
                        "and pwrite on threads",
                        WhyRefused(GetParam())));
}

/// A filter may let rings be made and refuse to enter them.
TEST_P(RefusedSetup, RefusedEnteringFallsBackToo) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&] {
    const std::string failed = RefuseSystemCall(SYS_io_uring_enter, GetParam(), Refuse::kEveryCall);
    return failed.empty() ? TryStore(OptionsIn(temp)) : failed;
  });
  EXPECT_EQ(text,
            fmt::format("threads [io_uring_enter: {} ({})] OK ok",
                        strerrorname_np(GetParam()),
                        strerrordesc_np(GetParam())));
}

TEST_P(RefusedSetup, RefusedEnteringIsMeasuredWithThreads) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&] {
    const std::string failed = RefuseSystemCall(SYS_io_uring_enter, GetParam(), Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    const auto rates = MeasureDiskRates({.directory = temp.path(),
                                         .file_bytes = 1 << 20,
                                         .block_bytes = 65536,
                                         .milliseconds = 10 * testing::kSlowdown});
    return rates.ok() ? rates->engine : rates.status().ToString();
  });
  EXPECT_EQ(text, "threads");
}

INSTANTIATE_TEST_SUITE_P(Errnos,
                         RefusedSetup,
                         ::testing::Values(EPERM, ENOSYS, ENOMEM),
                         [](const auto& test) { return strerrorname_np(test.param); });

TEST(RefusedIoUringTest, LockedMemoryUsedUpFallsBackToThreads) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&]() -> std::string {
    std::string failed = testing::LimitLockedMemory(0);
    return failed.empty() ? TryStore(OptionsIn(temp)) : failed;
  });
  EXPECT_EQ(text, "threads [io_uring_queue_init: " + WhyRefused(ENOMEM) + "] OK ok");
}

/// Makes a store, writes a page, then makes the kernel refuse all further submissions.
std::string StopSubmissions(const PageStoreOptions& options, int error_number) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  if (const absl::Status first = WriteSlot(**store, 1); !first.ok()) return first.ToString();
  std::string failed =
      RefuseSystemCall(SYS_io_uring_enter, error_number, Refuse::kWhenSecondArgument);
  if (!failed.empty()) return failed;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status write = WriteSlot(**store, 2);
  const auto spent = std::chrono::steady_clock::now() - begin;
  const std::string read = ReadSlot(**store, 1);
  store->reset();
  // Each of the six attempts waits a tenth of a second for the kernel, not the first alone.
  const bool patient = spent > std::chrono::milliseconds(800);
  return fmt::format(
      "{} / {} / {} / closed", write.ToString(), read, patient ? "patient" : "in haste");
}

TEST(RefusedIoUringTest, SubmissionsThatTheKernelKeepsRefusingFailAndTheStoreCloses) {
  const testing::TempDirectory temp;
  PageStoreOptions options = OptionsIn(temp);
  options.io_uring = Use::kRequire;
  const std::string text = RunInChild([&] { return StopSubmissions(options, EAGAIN); });
  if (text.starts_with("FAILED_PRECONDITION: io_uring is required")) GTEST_SKIP() << text;
  EXPECT_EQ(text,
            "UNAVAILABLE: slot 2: segment 1 page 2 generation 1: write failed after 6 attempts: "
            "EAGAIN (Resource temporarily unavailable) / "
            "UNAVAILABLE: slot 1: segment 1 page 1 generation 1: read failed after 6 attempts: "
            "EAGAIN (Resource temporarily unavailable) / patient / closed");
}

/// Several pages so large that each is submitted by itself; how they ended.
std::string StopLargeSubmissions(const PageStoreOptions& options) {
  alarm(60);
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  PageBuffer page(options.page_bytes);
  std::string failed = RefuseSystemCall(SYS_io_uring_enter, EAGAIN, Refuse::kWhenSecondArgument);
  if (!failed.empty()) return failed;
  std::vector<std::future<absl::Status>> writes;
  for (SlotIndex slot = 0; slot < kRefusedSlots; ++slot) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    writes.push_back(done->get_future());
    (*store)->Write(
        slot, {1, slot, 1}, page.span(), [done](absl::Status s) { done->set_value(std::move(s)); });
  }
  std::string ends;
  for (auto& write : writes) ends += absl::StatusCodeToString(write.get().code()) + " ";
  store->reset();
  return ends + "closed";
}

TEST(RefusedIoUringTest, LargeSubmissionsThatTheKernelKeepsRefusingFailToo) {
  const testing::TempDirectory temp;
  PageStoreOptions options = OptionsIn(temp);
  options.page_bytes = std::uint64_t{1} << 20;
  options.io_uring = Use::kRequire;
  const std::string text = RunInChild([&] { return StopLargeSubmissions(options); });
  if (text.starts_with("FAILED_PRECONDITION: io_uring is required")) GTEST_SKIP() << text;
  std::string expected;
  for (SlotIndex slot = 0; slot < kRefusedSlots; ++slot) expected += "UNAVAILABLE ";
  EXPECT_EQ(text, expected + "closed");
}

/// Memory is registered while a write is prepared that the kernel does not take.
std::string RegisterWhileRefused(const PageStoreOptions& options) {
  alarm(60);
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  PageBuffer page(kRefusedPage);
  std::string failed = RefuseSystemCall(SYS_io_uring_enter, EAGAIN, Refuse::kWhenSecondArgument);
  if (!failed.empty()) return failed;
  auto done = std::make_shared<std::promise<absl::Status>>();
  (*store)->Write(
      2, {1, 2, 1}, page.span(), [done](absl::Status s) { done->set_value(std::move(s)); });
  for (int i = 0; i < 3; ++i) {
    (*store)->RegisterMemory(page.span());
    (*store)->UnregisterMemory(page.span());
  }
  const absl::Status write = done->get_future().get();
  store->reset();
  return absl::StatusCodeToString(write.code()) + " closed";
}

TEST(RefusedIoUringTest, MemoryIsRegisteredThoughSubmissionsAreRefused) {
  const testing::TempDirectory temp;
  PageStoreOptions options = OptionsIn(temp);
  options.io_uring = Use::kRequire;
  const std::string text = RunInChild([&] { return RegisterWhileRefused(options); });
  if (text.starts_with("FAILED_PRECONDITION: io_uring is required")) GTEST_SKIP() << text;
  EXPECT_EQ(text, "UNAVAILABLE closed");
}

/// A limit in the middle of the fifth page of a file that is there already.
std::string WritePastFileSizeLimit(const PageStoreOptions& options) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  const rlimit limit{4 * kRefusedPage + kRefusedPage / 2, RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
  for (SlotIndex slot = 0; slot < 3; ++slot) (void)WriteSlot(**store, slot);  // places 0 to 2
  const absl::Status inside = WriteSlot(**store, 3);
  const absl::Status across = WriteSlot(**store, 4);
  const absl::Status beyond = WriteSlot(**store, 5);
  return fmt::format("{} / {} {} / {} {} / {} / short {}",
                     inside.ToString(),
                     absl::StatusCodeToString(across.code()),
                     across.message().find("EFBIG") != absl::string_view::npos,
                     absl::StatusCodeToString(beyond.code()),
                     beyond.message().find("EFBIG") != absl::string_view::npos,
                     ReadSlot(**store, 3),
                     (*store)->stats().short_io);
}

class FileSizeLimit : public ::testing::TestWithParam<std::pair<bool, bool>> {};

TEST_P(FileSizeLimit, FailsTheWriteAndNothingElse) {
  const testing::TempDirectory temp;
  PageStoreOptions options = OptionsIn(temp);
  options.io_uring = GetParam().first ? Use::kOff : Use::kAuto;
  options.direct = GetParam().second ? Use::kOff : Use::kAuto;
  EXPECT_EQ(RunInChild([&] { return WritePastFileSizeLimit(options); }),
            "OK / RESOURCE_EXHAUSTED true / RESOURCE_EXHAUSTED true / ok / short 1");
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         FileSizeLimit,
                         ::testing::Values(std::pair(false, false),
                                           std::pair(false, true),
                                           std::pair(true, false),
                                           std::pair(true, true)),
                         [](const auto& test) {
                           return fmt::format("{}{}",
                                              test.param.first ? "Threads" : "Default",
                                              test.param.second ? "Buffered" : "Direct");
                         });

TEST(RefusedIoUringTest, FileSizeLimitBelowTheFileIsExhaustedBeforeAnySignal) {
  const testing::TempDirectory temp;
  const std::string text = RunInChild([&]() -> std::string {
    const rlimit limit{kRefusedPage, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
    return TryStore(OptionsIn(temp));
  });
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: spill directory " + temp.path() +
                ": cannot reserve 576 KiB: the limit of file sizes is 64 KiB (see ulimit -f)");
}

}  // namespace
}  // namespace sluice::io
