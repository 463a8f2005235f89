#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/plan/plan.h"
#include "runtime/sim/simulator/machine.h"
#include "tools/support/console.h"

namespace sluice::tools {

/// Choice of the tensors that are discarded and made again.
enum class LabRecompute : std::uint8_t { kNone, kAll, kPlanned };

/// Flags of `sluice lab run`.
struct RunFlags {
  std::string path;
  std::optional<std::string> key;
  sim::Machine machine;
  std::vector<std::string> policies;
  std::uint64_t page_bytes = 0;
  int iterations = 3;
  std::uint32_t prefetch_ops = 12;
  bool ask_ahead = false;
  core::Objective objective = core::Objective::kTime;
  LabRecompute recompute = LabRecompute::kNone;
  std::string trace;  ///< file of the trace; empty: none
  Console::Mode mode = Console::Mode::kText;
};

/// Reads the flags. Errors: InvalidArgument that names the flag and the fix.
absl::StatusOr<RunFlags> ReadRunFlags(std::span<const std::string> words);
std::string RunHelpText();

}  // namespace sluice::tools
