#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::engine {

/// Categories of the intervals that a profiler shows in the domain "sluice" (NVTX).
enum class ProfilerCategory : std::uint32_t { kPageIn = 1, kPageOut, kEvict, kStall };

/// Whether a profiler has attached itself. A build without CUDA has none. Threads: any.
bool ProfilerListens();

/// An interval that may end on another thread; copies are the same interval. An interval costs a
/// comparison where no profiler listens.
class ProfilerRange {
 public:
  /// `name` is called for the interval's name where a profiler listens.
  template <typename Name>
  static ProfilerRange Begin(ProfilerCategory category, const Name& name) {
    ProfilerRange range;
    if (ProfilerListens()) range.number_ = Open(category, name());
    return range;
  }
  void End() const {
    if (number_.has_value()) Close(*number_);
  }

 private:
  static std::uint64_t Open(ProfilerCategory category, const std::string& name);
  static void Close(std::uint64_t number);

  std::optional<std::uint64_t> number_;
};

}  // namespace sluice::engine
