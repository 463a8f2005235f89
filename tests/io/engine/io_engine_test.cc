// Promises of every engine to the store: checks, bounds, completions.
#include "io/engine/io_engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <latch>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/memory_engine.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::PageBuffer;

constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBlock = 4096;

class CallbackRequest final : public IoRequest {
 public:
  void Complete(std::int64_t result) override { on_complete(result); }
  std::function<void(std::int64_t)> on_complete;
};

class IoEngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { Open(4); }

  void Open(std::uint32_t queue_depth) {
    engine_.reset();
    const absl::StatusOr<SpillDirectory> directory = OpenSpillDirectory(temp_.path());
    ASSERT_THAT(directory, IsOk());
    auto file = SpillFile::Create(*directory, {.bytes = kFileBytes});
    ASSERT_THAT(file, IsOk());
    file_ = *std::move(file);
    const IoEngineOptions options{.queue_depth = queue_depth,
                                  .merge_bytes_max = 8 * kBlock,
                                  .files = {file_->file().fd},
                                  .cpus = {}};
    if (GetParam() == "threads") engine_ = MakeThreadEngine(options).value();
    if (GetParam() == "memory")
      engine_ = testing::MakeMemoryEngine(std::make_shared<testing::MemoryFile>(kFileBytes));
    if (GetParam() == "io_uring") OpenUring(options);
  }

  void OpenUring(const IoEngineOptions& options) {
    auto ring = MakeUringEngine(options);
    if (!ring.ok()) GTEST_SKIP() << "io_uring is refused here: " << ring.status();
    engine_ = *std::move(ring);
  }

  std::int64_t Run(IoDirection direction, std::uint64_t offset, std::span<std::byte> data) {
    CallbackRequest request;
    std::latch done(1);
    std::int64_t result = 0;
    request.command = Command(direction, offset, data);
    request.on_complete = [&](std::int64_t value) {
      result = value;
      done.count_down();
    };
    EXPECT_THAT(engine_->Submit(&request), IsOk());
    done.wait();
    return result;
  }

  IoCommand Command(IoDirection direction, std::uint64_t offset, std::span<std::byte> data) const {
    return {.direction = direction,
            .file = &file_->file(),
            .offset = offset,
            .data = data.data(),
            .bytes = data.size()};
  }

  void ExpectRefused(std::uint64_t offset, std::span<std::byte> data, const char* text) {
    for (const IoDirection direction : {IoDirection::kRead, IoDirection::kWrite}) {
      CallbackRequest request;
      request.command = Command(direction, offset, data);
      request.on_complete = [](std::int64_t) { ADD_FAILURE() << "a refused request completed"; };
      EXPECT_THAT(engine_->Submit(&request), IsStatus(absl::StatusCode::kInvalidArgument, text));
    }
  }

  testing::TempDirectory temp_;
  std::unique_ptr<SpillFile> file_;
  std::unique_ptr<IoEngine> engine_;
};

TEST_P(IoEngineTest, MovesBytesBothWays) {
  PageBuffer page(8 * kBlock);
  page.Fill(7);
  EXPECT_EQ(Run(IoDirection::kWrite, 3 * kBlock, page.span()), 8 * kBlock);
  page.Clear();
  EXPECT_EQ(Run(IoDirection::kRead, 3 * kBlock, page.span()), 8 * kBlock);
  EXPECT_TRUE(page.Holds(7));
  EXPECT_EQ(engine_->name(), GetParam());
}

TEST_P(IoEngineTest, MisalignedRequestsAreRefusedEvenWhereTheKernelTakesThem) {
  PageBuffer page(2 * kBlock);
  const auto whole = page.span();
  ExpectRefused(512, whole, "aligned");
  ExpectRefused(0, whole.first(kBlock + 512), "aligned");
  ExpectRefused(0, whole.subspan(512, kBlock), "aligned");
  ExpectRefused(1, whole.first(kBlock), "aligned");
}

TEST_P(IoEngineTest, RequestsOutsideOfTheFileAreRefused) {
  PageBuffer page(2 * kBlock);
  ExpectRefused(kFileBytes, page.span(), "outside");
  ExpectRefused(kFileBytes - kBlock, page.span(), "outside");
  ExpectRefused(UINT64_MAX - kBlock + 1, page.span(), "outside");
  ExpectRefused(0, page.span().first(0), "outside");
}

TEST_P(IoEngineTest, TenThousandRequestsPassThroughAQueueOfFour) {
  constexpr std::size_t kRequests = 10000;
  constexpr std::size_t kBlocks = kFileBytes / kBlock;
  PageBuffer memory(kRequests * kBlock);
  std::vector<CallbackRequest> requests(kRequests);
  std::latch done(kRequests);
  std::atomic<std::size_t> whole = 0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    const std::uint64_t offset = i % kBlocks * kBlock;
    const IoDirection direction = i % 3 == 0 ? IoDirection::kWrite : IoDirection::kRead;
    requests[i].command = Command(direction, offset, memory.span().subspan(i * kBlock, kBlock));
    requests[i].on_complete = [&](std::int64_t result) {
      if (result == kBlock) ++whole;
      done.count_down();
    };
    ASSERT_THAT(engine_->Submit(&requests[i]), IsOk());
  }
  done.wait();
  EXPECT_EQ(whole, kRequests);
}

// Each meets an engine that sleeps, and waits as a whole by the time that it is awake.
TEST_P(IoEngineTest, BurstsPassThroughAQueueOfFour) {
  constexpr std::size_t kBursts = 300;
  constexpr std::size_t kRequests = 32;
  constexpr std::size_t kBlocks = kFileBytes / kBlock;
  PageBuffer memory(kRequests * kBlock);
  for (std::size_t burst = 0; burst < kBursts; ++burst) {
    std::vector<CallbackRequest> requests(kRequests);
    std::latch done(kRequests);
    std::atomic<std::size_t> whole = 0;
    for (std::size_t i = 0; i < kRequests; ++i) {
      // Gaps between the requests, so that none are merged.
      const std::uint64_t offset = 2 * i % kBlocks * kBlock;
      requests[i].command =
          Command(IoDirection::kRead, offset, memory.span().subspan(i * kBlock, kBlock));
      requests[i].on_complete = [&](std::int64_t result) {
        if (result == kBlock) ++whole;
        done.count_down();
      };
    }
    for (CallbackRequest& request : requests) ASSERT_THAT(engine_->Submit(&request), IsOk());
    done.wait();
    ASSERT_EQ(whole, kRequests) << "burst " << burst;
  }
}

TEST_P(IoEngineTest, ACompletionMaySubmitTheSameRequestAgain) {
  PageBuffer page(kBlock);
  CallbackRequest request;
  std::latch done(1);
  int rounds = 0;
  request.command = Command(IoDirection::kWrite, 0, page.span());
  request.on_complete = [&](std::int64_t result) {
    EXPECT_EQ(result, kBlock);
    if (++rounds == 100) return done.count_down();
    EXPECT_THAT(engine_->Submit(&request), IsOk());
  };
  ASSERT_THAT(engine_->Submit(&request), IsOk());
  done.wait();
  EXPECT_EQ(rounds, 100);
}

/// Submits `count` adjacent requests of one block from a completion, so that all of them wait at
/// once. Returns the results by block.
std::vector<std::int64_t> RunAtOnce(IoEngine& engine, const IoCommand& whole, std::size_t count) {
  std::vector<CallbackRequest> requests(count);
  std::vector<std::int64_t> results(count, 1);
  std::latch done(static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    requests[i].command = whole;
    requests[i].command.offset += i * kBlock;
    requests[i].command.data += i * kBlock;
    requests[i].command.bytes = kBlock;
    requests[i].on_complete = [&, i](std::int64_t result) {
      results[i] = result;
      done.count_down();
    };
  }
  PageBuffer page(kBlock);
  CallbackRequest first;
  first.command = whole;
  first.command.direction = IoDirection::kRead;
  first.command.offset = 0;
  first.command.data = page.span().data();
  first.command.bytes = kBlock;
  first.on_complete = [&](std::int64_t) {
    for (CallbackRequest& request : requests) EXPECT_THAT(engine.Submit(&request), IsOk());
  };
  EXPECT_THAT(engine.Submit(&first), IsOk());
  done.wait();
  return results;
}

TEST_P(IoEngineTest, AdjacentRequestsThatWaitBecomeOneOfTheKernel) {
  constexpr std::size_t kCount = 20;
  PageBuffer pages(kCount * kBlock);
  pages.Fill(9);
  const IoCommand write = Command(IoDirection::kWrite, 5 * kBlock, pages.span());
  for (const std::int64_t result : RunAtOnce(*engine_, write, kCount)) EXPECT_EQ(result, kBlock);
  pages.Clear();
  const IoCommand read = Command(IoDirection::kRead, 5 * kBlock, pages.span());
  for (const std::int64_t result : RunAtOnce(*engine_, read, kCount)) EXPECT_EQ(result, kBlock);
  EXPECT_TRUE(pages.Holds(9));
  // Eight blocks at most in one: 8, 8 and 4, both ways.
  EXPECT_EQ(engine_->merged(), GetParam() == "io_uring" ? 2 * (7 + 7 + 3) : 0);
}

TEST_P(IoEngineTest, PartsThatAMergedRequestDidNotReachAreTriedAlone) {
  if (GetParam() == "memory") GTEST_SKIP() << "a file in memory has no end to cut";
  constexpr std::size_t kCount = 8;
  PageBuffer pages(kCount * kBlock);
  const IoCommand read = Command(IoDirection::kRead, 8 * kBlock, pages.span());
  ASSERT_EQ(ftruncate(file_->file().fd, 11 * kBlock), 0);
  const std::vector<std::int64_t> results = RunAtOnce(*engine_, read, kCount);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(results[i], i < 3 ? kBlock : 0) << i;
}

TEST_P(IoEngineTest, AnErrorOfAMergedRequestIsThatOfTheRequestItBelongsTo) {
  if (GetParam() == "memory") GTEST_SKIP() << "the kernel does not check a memory engine";
  constexpr std::size_t kCount = 4;
  PageBuffer pages(kCount * kBlock);
  ASSERT_EQ(mprotect(pages.span().data() + 2 * kBlock, kBlock, PROT_READ), 0);
  const IoCommand read = Command(IoDirection::kRead, 8 * kBlock, pages.span());
  const std::vector<std::int64_t> results = RunAtOnce(*engine_, read, kCount);
  ASSERT_EQ(mprotect(pages.span().data() + 2 * kBlock, kBlock, PROT_READ | PROT_WRITE), 0);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(results[i], i == 2 ? -EFAULT : kBlock) << i;
}

TEST_P(IoEngineTest, WritesBackAndDropsWithoutMovingBytes) {
  PageBuffer page(kBlock);
  page.Fill(3);
  EXPECT_EQ(Run(IoDirection::kWrite, 0, page.span()), kBlock);
  EXPECT_EQ(Run(IoDirection::kWriteBack, 0, page.span()), 0);
  EXPECT_EQ(Run(IoDirection::kDropCache, 0, page.span()), 0);
  EXPECT_TRUE(page.Holds(3));
}

TEST_P(IoEngineTest, AnIdleEngineStopsAtEveryDepth) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 64U, 1024U}) {
    Open(depth);
    PageBuffer page(kBlock);
    EXPECT_EQ(Run(IoDirection::kWrite, 0, page.span()), kBlock);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         IoEngineTest,
                         ::testing::Values("io_uring", "threads", "memory"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sluice::io
