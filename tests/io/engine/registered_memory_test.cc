// Memory that the ring knows by number: the right bytes, the limit of locked memory, and memory
// that goes and comes back under the same address.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <span>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/engine/ring_buffers.h"
#include "io/engine/uring_ring.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::PageBuffer;

constexpr std::uint64_t kRegisteredPage = 65536;
constexpr SlotIndex kRegisteredSlots = 8;

/// Anonymous memory at an address that stays.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes), address_(Map(nullptr, 0)) {}
  ~Mapping() { munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Other pages under the same address.
  void Replace() { Map(address_, MAP_FIXED); }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(address_), bytes_}; }
  std::span<std::byte> page(std::size_t index) const {
    return span().subspan(index * kRegisteredPage, kRegisteredPage);
  }

 private:
  void* Map(void* address, int flags) const {
    constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
    void* mapped = mmap(address, bytes_, PROT_READ | PROT_WRITE, kPrivate | flags, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    return mapped;
  }

  const std::size_t bytes_;
  void* const address_;
};

void FillPage(std::span<std::byte> page, std::uint64_t seed) {
  PageBuffer content(kRegisteredPage);
  content.Fill(seed);
  std::memcpy(page.data(), content.span().data(), kRegisteredPage);
}

bool PageHolds(std::span<const std::byte> page, std::uint64_t seed) {
  PageBuffer content(kRegisteredPage);
  content.Fill(seed);
  return std::memcmp(page.data(), content.span().data(), kRegisteredPage) == 0;
}

/// A store whose operations can be waited for.
class Waiting {
 public:
  static absl::StatusOr<Waiting> Create(const PageStoreOptions& options) {
    auto workers = std::make_unique<base::WorkerPool>(
        base::WorkerPoolOptions{.threads = 1, .name = "test-worker", .cpus = {}});
    auto store = PageStore::Create(options, *workers);
    if (!store.ok()) return std::move(store).status();
    return Waiting(std::move(workers), *std::move(store));
  }

  absl::Status Write(SlotIndex slot, std::span<const std::byte> data) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    store_->Write(
        slot, {1, slot, 1}, data, [done](absl::Status s) { done->set_value(std::move(s)); });
    return done->get_future().get();
  }
  absl::Status Read(SlotIndex slot, std::span<std::byte> data) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    store_->Read(
        slot, {1, slot, 1}, data, [done](absl::Status s) { done->set_value(std::move(s)); });
    return done->get_future().get();
  }
  PageStore* operator->() { return store_.get(); }

 private:
  Waiting(std::unique_ptr<base::WorkerPool> workers, std::unique_ptr<PageStore> store)
      : workers_(std::move(workers)), store_(std::move(store)) {}

  std::unique_ptr<base::WorkerPool> workers_;
  std::unique_ptr<PageStore> store_;
};

class RegisteredMemoryTest : public ::testing::Test {
 protected:
  PageStoreOptions Options() const {
    return {.directory = temp_.path(),
            .page_bytes = kRegisteredPage,
            .slots = kRegisteredSlots,
            .io_uring = Use::kRequire};
  }

  testing::TempDirectory temp_;
};

#define SLUICE_SKIP_WITHOUT_IO_URING(store) \
  if (absl::IsFailedPrecondition((store).status())) GTEST_SKIP() << (store).status()

TEST_F(RegisteredMemoryTest, IsReadAndWrittenAsOtherMemoryIs) {
  auto store = Waiting::Create(Options());
  SLUICE_SKIP_WITHOUT_IO_URING(store);
  const Mapping known(4 * kRegisteredPage);
  const Mapping other(4 * kRegisteredPage);
  (*store)->RegisterMemory(known.span());
  EXPECT_EQ((*store)->stats().registered_bytes, 4 * kRegisteredPage);
  EXPECT_EQ((*store)->stats().registered_reason, "");
  for (std::size_t i = 0; i < 4; ++i) {
    FillPage(known.page(i), i);
    ASSERT_THAT(store->Write(static_cast<SlotIndex>(i), known.page(i)), IsOk());
    ASSERT_THAT(store->Read(static_cast<SlotIndex>(i), other.page(i)), IsOk());
    EXPECT_TRUE(PageHolds(other.page(i), i));
    ASSERT_THAT(store->Read(static_cast<SlotIndex>(i), known.page(3 - i)), IsOk());
    EXPECT_TRUE(PageHolds(known.page(3 - i), i));
  }
  (*store)->UnregisterMemory(known.span());
  EXPECT_EQ((*store)->stats().registered_bytes, 0U);
}

TEST_F(RegisteredMemoryTest, OtherPagesUnderTheSameAddressAreSeenOnceItIsUnregistered) {
  auto store = Waiting::Create(Options());
  SLUICE_SKIP_WITHOUT_IO_URING(store);
  Mapping memory(2 * kRegisteredPage);
  FillPage(memory.page(0), 7);
  (*store)->RegisterMemory(memory.span());
  ASSERT_THAT(store->Write(2, memory.page(0)), IsOk());
  for (int round = 0; round < 4; ++round) {
    (*store)->UnregisterMemory(memory.span());
    memory.Replace();
    ASSERT_THAT(store->Read(2, memory.page(1)), IsOk());
    EXPECT_TRUE(PageHolds(memory.page(1), 7)) << "round " << round;
    (*store)->RegisterMemory(memory.span());
    ASSERT_THAT(store->Read(2, memory.page(0)), IsOk());
    EXPECT_TRUE(PageHolds(memory.page(0), 7)) << "round " << round;
  }
}

TEST_F(RegisteredMemoryTest, AnEngineWithoutARingSaysSo) {
  PageStoreOptions options = Options();
  options.io_uring = Use::kAuto;
  options.io_uring = Use::kOff;
  auto store = Waiting::Create(options);
  ASSERT_THAT(store, IsOk());
  const Mapping memory(kRegisteredPage);
  (*store)->RegisterMemory(memory.span());
  EXPECT_EQ((*store)->stats().registered_bytes, 0U);
  EXPECT_EQ((*store)->stats().registered_reason, "the engine \"threads\" registers none");
}

constexpr char kLimitReached[] =
    "ENOMEM (Cannot allocate memory): the limit of locked memory (ulimit -l) counts it without "
    "CAP_IPC_LOCK";

std::string UseMemoryBeyondTheLimit(const PageStoreOptions& options) {
  std::string failed = testing::LimitLockedMemory(4 << 20);
  if (!failed.empty()) return failed;
  auto store = Waiting::Create(options);
  if (!store.ok()) return store.status().ToString();
  const Mapping memory(8 << 20);
  (*store)->RegisterMemory(memory.span());
  const PageStoreStats stats = (*store)->stats();
  FillPage(memory.page(5), 5);
  const absl::Status wrote = store->Write(1, memory.page(5));
  std::memset(memory.page(5).data(), 0, kRegisteredPage);
  const absl::Status read = store->Read(1, memory.page(5));
  return fmt::format("{} bytes: {} / {} / {} / {}",
                     stats.registered_bytes,
                     stats.registered_reason,
                     wrote.ToString(),
                     read.ToString(),
                     PageHolds(memory.page(5), 5) ? "exact" : "wrong bytes");
}

TEST_F(RegisteredMemoryTest, MemoryBeyondTheLimitOfLockedMemoryWorksAsWell) {
  const std::string text = testing::RunInChild([&] { return UseMemoryBeyondTheLimit(Options()); });
  if (text.starts_with("FAILED_PRECONDITION: io_uring is required")) GTEST_SKIP() << text;
  EXPECT_EQ(text, fmt::format("0 bytes: {} / OK / OK / exact", kLimitReached));
}

std::string RegisterHalf() {
  std::string failed = testing::LimitLockedMemory(6 << 20);
  if (!failed.empty()) return failed;
  io_uring ring{};
  const auto info = CreateRing({.entries = 4, .files = {}}, &ring);
  if (!info.ok() || !info->buffers_reserved) return "refused";
  const Mapping memory(8 << 20);
  RingBuffers buffers(&ring, 1 << 20);
  const RegisteredMemory registered = buffers.Add(memory.span());
  const bool first = buffers.Find(memory.page(0).data(), kRegisteredPage).has_value();
  const bool last = buffers.Find(memory.page(127).data(), kRegisteredPage).has_value();
  const bool some = registered.bytes >= 4 << 20 && registered.bytes <= 6 << 20;
  return fmt::format("{} {} {} {}", some, first, last, registered.reason);
}

TEST(RingBuffersTest, TakesWhatTheLimitAllows) {
  const std::string text = testing::RunInChild(RegisterHalf);
  if (text == "refused") GTEST_SKIP() << "io_uring is refused here";
  EXPECT_EQ(text, fmt::format("true true false {}", kLimitReached));
}

TEST(RingBuffersTest, FindsWhatLiesWithinOnePiece) {
  io_uring ring{};
  const auto info = CreateRing({.entries = 4, .files = {}}, &ring);
  if (!info.ok()) GTEST_SKIP() << "io_uring is refused here: " << info.status();
  if (!info->buffers_reserved) GTEST_SKIP() << "this kernel grants only: " << info->features;
  const Mapping first(4 * kRegisteredPage);
  const Mapping second(4 * kRegisteredPage);
  RingBuffers buffers(&ring);
  EXPECT_EQ(buffers.Add(first.span()).bytes, 4 * kRegisteredPage);
  EXPECT_EQ(buffers.Add(second.span()).bytes, 4 * kRegisteredPage);
  const auto in_first = buffers.Find(first.page(0).data(), 4 * kRegisteredPage);
  const auto in_second = buffers.Find(second.page(3).data(), kRegisteredPage);
  ASSERT_TRUE(in_first.has_value());
  ASSERT_TRUE(in_second.has_value());
  EXPECT_NE(*in_first, *in_second);
  EXPECT_FALSE(buffers.Find(first.page(3).data(), 2 * kRegisteredPage).has_value())
      << "beyond its end";
  const std::byte* const low = std::min(first.span().data(), second.span().data());
  EXPECT_FALSE(buffers.Find(low - kRegisteredPage, kRegisteredPage).has_value()) << "before both";
  buffers.Remove(first.span());
  EXPECT_FALSE(buffers.Find(first.page(0).data(), kRegisteredPage).has_value());
  EXPECT_TRUE(buffers.Find(second.page(0).data(), kRegisteredPage).has_value());
  EXPECT_EQ(buffers.Add(first.span()).bytes, 4 * kRegisteredPage);
  EXPECT_EQ(buffers.Find(first.page(0).data(), kRegisteredPage), in_first)
      << "numbers are used again";
  io_uring_queue_exit(&ring);
}

TEST(RingBuffersTest, TakesItsShareAtATime) {
  io_uring ring{};
  const auto info = CreateRing({.entries = 4, .files = {}}, &ring);
  if (!info.ok()) GTEST_SKIP() << "io_uring is refused here: " << info.status();
  if (!info->buffers_reserved) GTEST_SKIP() << "this kernel grants only: " << info->features;
  const Mapping first(4 * kRegisteredPage);
  const Mapping second(4 * kRegisteredPage);
  RingBuffers buffers(&ring, kRegisteredPage, 6 * kRegisteredPage);
  EXPECT_EQ(buffers.Add(first.span()).bytes, 4 * kRegisteredPage);
  const RegisteredMemory registered = buffers.Add(second.span());
  EXPECT_EQ(registered.bytes, 2 * kRegisteredPage);
  EXPECT_EQ(registered.reason,
            fmt::format("this process has {} bytes of the limit of locked memory (ulimit -l)",
                        6 * kRegisteredPage));
  buffers.Remove(first.span());
  buffers.Remove(second.span());
  EXPECT_EQ(buffers.Add(second.span()).bytes, 4 * kRegisteredPage)
      << "memory that was given back no longer counts";
  io_uring_queue_exit(&ring);
}

TEST(RingBuffersTest, CutsThePieceToWhatIsLeftOfTheShare) {
  io_uring ring{};
  const auto info = CreateRing({.entries = 4, .files = {}}, &ring);
  if (!info.ok()) GTEST_SKIP() << "io_uring is refused here: " << info.status();
  if (!info->buffers_reserved) GTEST_SKIP() << "this kernel grants only: " << info->features;
  const Mapping memory(8 * kRegisteredPage);
  constexpr std::uint64_t kPartOfASystemPage = 100;
  RingBuffers buffers(&ring, 4 * kRegisteredPage, 6 * kRegisteredPage + kPartOfASystemPage);
  const RegisteredMemory registered = buffers.Add(memory.span());
  EXPECT_EQ(registered.bytes, 6 * kRegisteredPage) << "a whole piece and half of one";
  EXPECT_THAT(registered.reason, ::testing::HasSubstr("of the limit of locked memory (ulimit -l)"));
  EXPECT_TRUE(buffers.Find(memory.page(5).data(), kRegisteredPage).has_value());
  EXPECT_FALSE(buffers.Find(memory.page(6).data(), kRegisteredPage).has_value());
  io_uring_queue_exit(&ring);
}

}  // namespace
}  // namespace sluice::io
