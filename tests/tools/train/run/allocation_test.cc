#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "gtest/gtest.h"
#include "tests/tools/temporary_directory.h"
#include "tools/train/files/corpus.h"
#include "tools/train/files/record_file.h"

namespace {

/// The largest piece of memory that this program asked for at once.
std::atomic<std::size_t> largest = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  std::size_t before = largest.load();
  while (before < bytes && !largest.compare_exchange_weak(before, bytes)) {
  }
  if (void* const memory = std::malloc(bytes)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace sluice::tools {
namespace {

/// Limit of an allocation. Larger ones belong into a tensor of the Runtime, where a budget counts
/// them.
constexpr std::size_t kLimit = std::size_t{1} << 20;

TEST(AllocationTest, NoOutputIsBufferedWhole) {
  const TemporaryDirectory directory;
  const std::string large(3 * kLimit, 'x');
  auto file = AtomicFile::Create(directory / "file");
  ASSERT_TRUE(file.ok()) << file.status();
  largest = 0;
  EXPECT_TRUE((*file)->Append("begin").ok());
  EXPECT_TRUE((*file)->Append(large).ok());
  EXPECT_TRUE((*file)->Commit().ok());
  EXPECT_LE(largest, kLimit);
  EXPECT_TRUE(ReadWhole(directory / "file") == "begin" + large);
}

TEST(AllocationTest, NoScheduleIsFormattedWhole) {
  const TemporaryDirectory directory;
  Schedule schedule{.key = "train", .page_bytes = 4096};
  for (int i = 0; i < 5000; ++i) schedule.ops.push_back({.name = std::string(400, 'n')});
  auto file = AtomicFile::Create(directory / "file");
  ASSERT_TRUE(file.ok()) << file.status();
  largest = 0;
  EXPECT_TRUE(AppendSchedule("x", schedule, file->get()).ok());
  EXPECT_LE(largest, kLimit);
}

TEST(AllocationTest, NoTextIsHeldWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("text", std::string(3 * kLimit, 'x'));
  largest = 0;
  EXPECT_TRUE(LoadCorpus({.files = {path}}).ok());
  EXPECT_LE(largest, kLimit);
}

}  // namespace
}  // namespace sluice::tools
