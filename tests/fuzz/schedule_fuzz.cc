// A schedule file of any bytes, in pieces of any size, is read or refused with a message, within
// its limits. If it is read, writing gives the same schedule, and its facts can be found.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "runtime/sim/facts/schedule_facts.h"
#include "runtime/sim/files/schedule_reader.h"
#include "tests/runtime/sim/files/gzip.h"
#include "tests/runtime/sim/files/write_schedule.h"

namespace {

using sluice::sim::FileSchedule;

absl::StatusOr<FileSchedule> Read(std::string_view text, std::size_t piece) {
  const sluice::sim::ReadLimits limits{.text = sluice::Bytes(1 << 20),
                                       .line = sluice::Bytes(1 << 16),
                                       .values = 1000,
                                       .model = sluice::Bytes(1 << 20)};
  sluice::sim::ScheduleReader reader({.file = "f", .limits = limits});
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    if (!reader.Append(text.substr(0, piece)).ok()) break;
  }
  absl::StatusOr<FileSchedule> schedule = reader.Finish();
  SLUICE_CHECK(schedule.ok() || !schedule.status().message().empty(), "errors say something");
  return schedule;
}

bool Same(const absl::StatusOr<FileSchedule>& a, const absl::StatusOr<FileSchedule>& b) {
  return a.ok() ? b.ok() && *a == *b : !b.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<FileSchedule> schedule = Read(input, size + 1);
  SLUICE_CHECK(Same(schedule, Read(input, 3)), "pieces make no difference");
  if (!schedule.ok()) return 0;
  SLUICE_CHECK(Same(schedule, Read(sluice::sim::WriteSchedule(*schedule), 100)),
               "what is written reads the same");
  SLUICE_CHECK(Same(schedule, Read(sluice::sim::Gzip(sluice::sim::WriteSchedule(*schedule)), 50)),
               "compressed, too");
  const auto facts = sluice::sim::FindFacts(*schedule, {.visits_max = 10'000});
  SLUICE_CHECK(facts.ok() || !facts.status().message().empty(), "errors say something");
  return 0;
}
