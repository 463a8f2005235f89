#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/sim/facts/schedule_facts.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::tools {

/// Results of `sluice lab show`.
struct ShowReport {
  std::string file;
  sim::FileSchedule schedule;
  sim::ScheduleFacts facts;
  /// Size of the pages in which bytes are counted; 1: exactly.
  std::uint64_t page_bytes = 1;
};

/// Shares of all bytes used again for which reuse distances are told.
inline constexpr std::array kReuseShares = {0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0};

/// The results for people: one line per fact, then tables.
std::string ToText(const ShowReport& report);
/// The results for programs: a JSON object per line, described in docs/lab.md.
std::string ToJsonLines(const ShowReport& report);

}  // namespace sluice::tools
