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

/// Whose attempts the fault may strike, and which are counted.
enum class Target : std::uint8_t {
  kAny,
  kReproducible,  ///< pages that a callback restores
  kSoleCopy,      ///< pages whose only copy is the slot
  kRewritten,     ///< pages that held something else before
};

/// What is done when the fault strikes, with the attempt in flight.
enum class Act : std::uint8_t {
  kGoOn,
  kDestroy,   ///< the store, and then everything
  kFork,      ///< a child calls the store
  kRegister,  ///< nothing; all along memory is registered
};

struct RunOptions {
  Medium medium = Medium::kVirtual;
  testing::FaultPlan plan;
  Target target = Target::kAny;
  Act act = Act::kGoOn;
  PagerOptions pager;
  /// Of which the fault strikes the first.
  std::uint32_t drives = 1;
  VirtualEngineOptions disk;
};

/// How it went.
struct RunOutcome {
  /// Why the medium cannot be had here; then nothing else is set.
  std::string unavailable;
  /// The first thing that must never happen: a wrong byte, a lost page that is not reported, a
  /// failure without a cause, a hang ... Empty: nothing did.
  std::string violation;
  bool struck = false;
  /// Attempts that the plan counts, up to where nothing goes wrong any more.
  std::uint64_t attempts = 0;
  /// Reads and writes of the store that failed, and ops of the trace.
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
  /// Of everything that was granted, in order: equal runs have equal ones.
  std::uint64_t fingerprint = 0;
};

/// Runs the trace with the plan's fault, compares every byte of every lease, then all tensors, then
/// all tensors once more after the fault has gone.
RunOutcome RunTrace(const Trace& trace, const RunOptions& options);

}  // namespace sluice::faults
