#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "tests/faults/hosts/store_host.h"
#include "tests/faults/trace/pager.h"
#include "tests/faults/trace/trace.h"

namespace sluice::faults {

/// Pages whose attempts count, and may be struck.
enum class Target : std::uint8_t {
  kAny,
  kReproducible,  ///< pages that a callback restores
  kSoleCopy,      ///< pages whose only copy is the slot
  kRewritten,     ///< pages that held something else before
};

/// Action when the fault strikes, with the attempt in flight.
enum class Act : std::uint8_t {
  kGoOn,
  kDestroy,   ///< the store is destroyed, then everything else
  kFork,      ///< a child calls the store
  kRegister,  ///< no action; memory is registered all along
};

struct RunOptions {
  Medium medium = Medium::kVirtual;
  testing::FaultPlan plan;
  Target target = Target::kAny;
  Act act = Act::kGoOn;
  PagerOptions pager;
  /// Number of drives. The fault strikes the first.
  std::uint32_t drives = 1;
  VirtualEngineOptions disk;
};

/// Outcome of a run.
struct RunOutcome {
  /// Reason why the medium does not exist here; the other fields are not set then.
  std::string unavailable;
  /// First violation: a wrong byte, a lost page that is not reported, a failure without a cause, a
  /// hang. Empty: none.
  std::string violation;
  bool struck = false;
  /// Attempts that the plan counts, up to the end of the faults.
  std::uint64_t attempts = 0;
  /// Failed reads and writes of the store, and failed ops of the trace.
  std::map<absl::StatusCode, std::uint64_t> store_failures;
  std::map<core::TicketFailure, std::uint64_t> op_failures;
  std::uint64_t pages_lost = 0;
  std::uint64_t pages_reproduced = 0;
  /// Operations of the store that ended while a completion was held back.
  std::uint64_t passed_while_held = 0;
  /// Drives that failed, and writes that went from one place to another.
  std::uint64_t fenced = 0;
  std::uint64_t moved = 0;
  io::PageStoreStats stats;
  std::chrono::microseconds time{0};
  /// Hash of all grants, in order: equal runs have equal hashes.
  std::uint64_t fingerprint = 0;
};

/// Runs the trace with the plan's fault, and compares every byte of every lease. At the end it
/// compares all tensors, and once more after the fault has gone.
RunOutcome RunTrace(const Trace& trace, const RunOptions& options);

}  // namespace sluice::faults
