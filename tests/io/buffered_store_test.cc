// A store without O_DIRECT: the page cache is a stop on the way, not a place to stay.
#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/faulty_engine.h"
#include "tests/support/page_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_under_test.h"

namespace sluice::io {
namespace {

using testing::FaultPlan;
using testing::IsOk;
using testing::IsStatus;
using testing::PageBuffer;
using testing::StoreKind;
using testing::StoreUnderTest;
using Code = absl::StatusCode;

constexpr std::uint64_t kBufferedPage = std::uint64_t{64} << 10;
constexpr SlotIndex kBufferedSlots = 64;

/// Bytes of the file that the page cache holds.
std::uint64_t CachedBytes(int fd, std::uint64_t bytes) {
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_NE(map, MAP_FAILED);
  std::vector<unsigned char> resident(bytes / 4096);
  EXPECT_EQ(mincore(map, bytes, resident.data()), 0);
  munmap(map, bytes);
  std::uint64_t cached = 0;
  for (const unsigned char page : resident) cached += (page & 1) * 4096;
  return cached;
}

class BufferedStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  PageStoreOptions Options() const {
    return {.page_bytes = kBufferedPage, .slots = kBufferedSlots, .disable_io_uring = GetParam()};
  }
};

TEST_P(BufferedStoreTest, TheCacheHoldsNothingOfWhatIsDone) {
  StoreUnderTest store({.kind = StoreKind::kBuffered, .options = Options()});
  PageBuffer page(kBufferedPage);
  for (SlotIndex slot = 0; slot < kBufferedSlots; ++slot) {
    page.Fill(slot);
    ASSERT_THAT(store.Write(slot, {1, slot, 1}, page.span()), IsOk());
  }
  EXPECT_EQ(CachedBytes(store.fd(), kBufferedPage * kBufferedSlots), 0u);
  for (SlotIndex slot = 0; slot < kBufferedSlots; ++slot) {
    ASSERT_THAT(store.Read(slot, {1, slot, 1}, page.span()), IsOk());
    EXPECT_TRUE(page.Holds(slot)) << slot;
  }
  EXPECT_EQ(CachedBytes(store.fd(), kBufferedPage * kBufferedSlots), 0u);
}

/// What a plain write to the page cache never hears.
TEST_P(BufferedStoreTest, AnErrorOfTheMediumIsOneOfTheWrite) {
  for (const auto& [error, code] :
       {std::pair{EIO, Code::kInternal}, std::pair{ENOSPC, Code::kResourceExhausted}}) {
    const FaultPlan plan{.kind = FaultPlan::Kind::kError,
                         .error_number = error,
                         .operation = 1,
                         .direction = IoDirection::kWriteBack};
    StoreUnderTest store({.kind = StoreKind::kBuffered,
                          .options = Options(),
                          .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                            return std::make_unique<testing::FaultyEngine>(
                                std::move(upstream), plan, kBufferedPage);
                          }});
    PageBuffer page(kBufferedPage);
    ASSERT_THAT(store.Write(0, {1, 0, 1}, page.span()), IsOk());
    EXPECT_THAT(store.Write(1, {1, 1, 1}, page.span()), testing::HasCode(code));
    EXPECT_THAT(store.Read(1, {1, 1, 1}, page.span()), testing::HasCode(Code::kNotFound));
    EXPECT_THAT(store.Read(0, {1, 0, 1}, page.span()), IsOk());
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, BufferedStoreTest, ::testing::Bool(), [](const auto& test) {
  return test.param ? "Threads" : "Default";
});

}  // namespace
}  // namespace sluice::io
