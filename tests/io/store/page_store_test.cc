// Create: options, directories, and what is left behind.
#include "io/store/page_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "gtest/gtest.h"
#include "io/store/page_store_parts.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

class PageStoreCreateTest : public ::testing::Test {
 protected:
  PageStoreOptions Options() const {
    return {.directory = temp_.path(), .page_bytes = 4096, .slots = 8};
  }
  absl::Status Create(const PageStoreOptions& options) {
    return PageStore::Create(options, workers_).status();
  }
  void ExpectInvalid(const PageStoreOptions& options, const char* text) {
    EXPECT_THAT(Create(options), IsStatus(Code::kInvalidArgument, text));
  }

  testing::TempDirectory temp_;
  base::WorkerPool workers_{{.threads = 1, .name = "test-worker", .cpus = {}}};
};

TEST_F(PageStoreCreateTest, LeavesNoNameBehindWhileOpenAndAfter) {
  auto store = PageStore::Create(Options(), workers_);
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ(temp_.entries(), 0);
  store->reset();
  EXPECT_EQ(temp_.entries(), 0);
}

TEST_F(PageStoreCreateTest, EveryWriteIsDoneOnceTheStoreIsGone) {
  testing::PageBuffer page(4096);
  for (int round = 0; round < 50; ++round) {
    auto store = PageStore::Create(Options(), workers_);
    ASSERT_THAT(store, IsOk());
    const auto writes = static_cast<SlotIndex>(round % 8 + 1);
    std::atomic<SlotIndex> finished = 0;
    for (SlotIndex slot = 0; slot < writes; ++slot) {
      (*store)->Write(slot, {1, slot, 1}, page.span(), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        ++finished;
      });
    }
    store->reset();
    EXPECT_EQ(finished, writes);
  }
}

TEST_F(PageStoreCreateTest, StatsNameTheDriveThatItIsOn) {
  const auto store = PageStore::Create(Options(), workers_);
  ASSERT_THAT(store, IsOk());
  const std::vector<DriveStats> drives = (*store)->stats().drives;
  ASSERT_EQ(drives.size(), 1u);
  EXPECT_EQ(drives[0].directory, temp_.path());
  EXPECT_EQ(drives[0].places, 9u);
}

TEST(SpareSlotsTest, SparesAreOneIn512AndAtLeastOne) {
  EXPECT_EQ(WithSpares(1), 2u);
  EXPECT_EQ(WithSpares(1023), 1024u);
  EXPECT_EQ(WithSpares(5120), 5130u);
  EXPECT_EQ(WithSpares(UINT32_MAX - 1), UINT32_MAX);
  EXPECT_EQ(PlacesOf({.slots = 8}), 9u);
  EXPECT_EQ(PlacesOf({.slots = 8, .places = 3}), 3u);
}

TEST_F(PageStoreCreateTest, BadOptionsAreNamed) {
  PageStoreOptions options = Options();
  for (const std::uint64_t bytes : {0ULL, 512ULL, 12288ULL, 134217728ULL}) {
    options.page_bytes = bytes;
    ExpectInvalid(options, "page_bytes");
  }
  options = Options();
  options.slots = 0;
  ExpectInvalid(options, "slots");
  options = Options();
  options.queue_depth = 0;
  ExpectInvalid(options, "queue_depth");
  options.queue_depth = 1025;
  ExpectInvalid(options, "queue_depth");
  options = Options();
  options.operations_max = 0;
  ExpectInvalid(options, "operations_max");
  options = Options();
  options.backoff.attempts_max = 0;
  ExpectInvalid(options, "attempts_max");
  options = Options();
  options.backoff.first_pause = std::chrono::microseconds(-1);
  ExpectInvalid(options, "first_pause");
}

TEST_F(PageStoreCreateTest, UnsafeDirectoryIsRefused) {
  PageStoreOptions options = Options();
  options.directory = temp_.path() + "/missing";
  EXPECT_THAT(Create(options), HasCode(Code::kNotFound));
  ASSERT_EQ(chmod(temp_.path().c_str(), 0777), 0);
  EXPECT_THAT(Create(Options()), HasCode(Code::kPermissionDenied));
}

TEST_F(PageStoreCreateTest, ForbiddenFallbacksAreRefused) {
  const testing::TempDirectory memory("/dev/shm");
  PageStoreOptions options = Options();
  options.directory = memory.path();
  options.direct = Use::kRequire;
  EXPECT_THAT(Create(options), IsStatus(Code::kFailedPrecondition, "O_DIRECT is required"));
  EXPECT_EQ(memory.entries(), 0);
  EXPECT_EQ(temp_.entries(), 0);
}

}  // namespace
}  // namespace sluice::io
