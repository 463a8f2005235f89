#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>

#include "runtime/core/events.h"
#include "runtime/engine/logger.h"

namespace sluice::engine {

/// The last core events, for the log when something went wrong. Threads: the core thread only.
class EventHistory {
 public:
  static constexpr std::size_t kCapacity = 4096;

  /// Keeps the event; the reference is valid until the next call.
  const core::Event& Add(core::Event event);
  /// Writes what was not written before to the log, oldest first, under a line that says why.
  void Dump(Logger& logger, std::string_view why);

 private:
  std::deque<core::Event> events_;
  std::uint64_t added_ = 0;
  std::uint64_t dumped_ = 0;  ///< events before this one were written
};

}  // namespace sluice::engine
