#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/policy.h"

namespace sluice::core {

/// Seeded random references for replacement policies.
struct Reference {
  enum class Mode : std::uint8_t { kRead, kWrite, kOverwrite };

  PageIndex page = 0;
  Mode mode = Mode::kRead;
};
using Trace = std::vector<Reference>;

struct TraceOptions {
  std::size_t length = 20'000;
  std::uint32_t pages = 200;
  std::uint64_t seed = 1;
};

/// Every page with equal chance.
Trace UniformTrace(const TraceOptions& options);
/// Page k with a chance in proportion to 1 / (k + 1)^0.9.
Trace ZipfTrace(const TraceOptions& options);
/// All pages in order, again and again.
Trace LoopTrace(const TraceOptions& options);
/// Zipf references, interrupted by scans through pages that are never used again.
Trace ScanTrace(const TraceOptions& options);
/// All pages up and down again, each a few times in a row, as in a training step.
Trace UpAndDownTrace(const TraceOptions& options);
/// A small set of pages that moves on, and now and then any page.
Trace PhasesTrace(const TraceOptions& options);

struct NamedTrace {
  std::string name;
  Trace trace;
};
std::vector<NamedTrace> AllTraces(const TraceOptions& options);

/// Makes the given percentages of the references writes and overwrites.
void AddWrites(std::uint64_t seed, std::uint32_t writes, std::uint32_t overwrites, Trace* trace);

/// Index of the next reference to the same page, for each reference; kNever if there is none.
std::vector<Position> NextUses(const Trace& trace);

}  // namespace sluice::core
