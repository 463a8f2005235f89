#include "tests/support/store/memory_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/engine/blocking_engine.h"

namespace sluice::testing {

std::int64_t MemoryFile::Perform(const io::IoCommand& command) {
  if (command.direction == io::IoDirection::kWriteBack) return 0;
  if (command.direction == io::IoDirection::kDropCache) return 0;
  base::MutexLock lock(mutex_);
  const bool writes = command.direction == io::IoDirection::kWrite;
  if (writes) content_.resize(std::max(content_.size(), command.offset + command.bytes));
  if (command.offset >= content_.size()) return 0;
  const std::size_t bytes = std::min<std::size_t>(command.bytes, content_.size() - command.offset);
  std::byte* stored = content_.data() + command.offset;
  if (writes) {
    std::memcpy(stored, command.data, bytes);
  } else {
    std::memcpy(command.data, stored, bytes);
  }
  return static_cast<std::int64_t>(bytes);
}

void MemoryFile::Truncate(std::size_t bytes) {
  base::MutexLock lock(mutex_);
  content_.resize(bytes);
}

void MemoryFile::Flip(std::size_t offset) {
  base::MutexLock lock(mutex_);
  content_.at(offset) = ~content_.at(offset);
}

void MemoryFile::Swap(std::size_t offset_a, std::size_t offset_b, std::size_t bytes) {
  base::MutexLock lock(mutex_);
  std::byte* a = content_.data() + offset_a;
  std::swap_ranges(a, a + bytes, content_.data() + offset_b);
}

std::unique_ptr<io::IoEngine> MakeMemoryEngine(std::shared_ptr<MemoryFile> file) {
  auto engine = io::BlockingEngine::Create(
      {.name = "memory", .threads = 1, .cpus = {}},
      [file = std::move(file)](const io::IoCommand& command) { return file->Perform(command); });
  SLUICE_CHECK(engine.ok(), "the system has a thread left");
  return *std::move(engine);
}

}  // namespace sluice::testing
