#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/sim/facts/schedule_facts.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::tools {

/// What `sluice lab show` tells.
struct ShowReport {
  std::string file;
  sim::FileSchedule schedule;
  sim::ScheduleFacts facts;
  /// Bytes are counted in pages of this size; 1: exactly.
  std::uint64_t page_bytes = 1;
};

/// The shares of all bytes used again that reuse distances are told for.
inline constexpr std::array kReuseShares = {0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0};

/// For people: one line per fact, then tables.
std::string ToText(const ShowReport& report);
/// For programs: a JSON object per line; docs/lab.md describes them.
std::string ToJsonLines(const ShowReport& report);

}  // namespace sluice::tools
