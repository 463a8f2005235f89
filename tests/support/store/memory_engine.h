#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "io/engine/io_engine.h"

namespace sluice::testing {

/// The bytes of a file that exists only in memory. Threads: any.
class MemoryFile {
 public:
  explicit MemoryFile(std::size_t bytes) : content_(bytes) {}

  /// Like pread and pwrite at the end of a file: reads stop there, writes extend it.
  std::int64_t Perform(const io::IoCommand& command);
  void Truncate(std::size_t bytes);
  /// Inverts one byte.
  void Flip(std::size_t offset);
  void Swap(std::size_t offset_a, std::size_t offset_b, std::size_t bytes);

 private:
  base::Mutex mutex_;
  std::vector<std::byte> content_ ABSL_GUARDED_BY(mutex_);
};

/// An engine in memory: one thread, requests in the order of the queue. `file` is shared with
/// whoever wants to tamper with it; the file of the commands gives only the bounds.
std::unique_ptr<io::IoEngine> MakeMemoryEngine(std::shared_ptr<MemoryFile> file);

}  // namespace sluice::testing
