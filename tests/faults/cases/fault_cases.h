#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/faults/trace/trace_run.h"

namespace sluice::faults {

/// Effect of a fault on the user of tensors.
enum class Seen : std::uint8_t {
  kNothing,
  kLoss,  ///< ops on the page that was harmed fail, by its name
  kFull,  ///< ops that need room, or the page that cannot be brought, fail; nothing is lost
};

/// Counter of the store that grows when the fault strikes.
enum class Counter : std::uint8_t { kNone, kShortIo, kRetries, kChecksumFailures };

/// Actions of the drive set against a fault: taken in some runs if true, never if false.
struct Remedies {
  bool retires = false;  ///< a place for every page that is lost
  bool moves = false;    ///< writes go on to the next drive
  bool fences = false;   ///< the drive counts as failed
};

/// A fault, and its required outcome, whichever attempt it strikes.
struct FaultCase {
  std::string name;
  RunOptions options;
  /// Error of a store operation that the fault may cause; none: no operation fails.
  std::optional<absl::StatusCode> code;
  Seen seen = Seen::kNothing;
  /// Whether every strike makes the store fail, and the user sees that in at least one run.
  bool certain = false;
  Counter counter = Counter::kNone;
  Remedies remedies;
  /// Whether the counted number is a seed, not an attempt.
  bool seeds = false;
};

std::ostream& operator<<(std::ostream& out, const FaultCase& fault);

// Cases by fault. The numbers are those of the classes in tests/faults/README.md.
std::vector<FaultCase> ShortCountCases();       // 1
std::vector<FaultCase> PassingErrorCases();     // 2, 3
std::vector<FaultCase> UnreadablePageCases();   // 4, 5
std::vector<FaultCase> WriteErrorCases();       // 6
std::vector<FaultCase> CorruptionCases();       // 7
std::vector<FaultCase> LostWriteCases();        // 8
std::vector<FaultCase> RegistrationCases();     // 12
std::vector<FaultCase> FullRingCases();         // 13
std::vector<FaultCase> SlowAttemptCases();      // 14
std::vector<FaultCase> OutOfOrderCases();       // 15
std::vector<FaultCase> RefusedDirectIoCases();  // 16
std::vector<FaultCase> DestructionCases();      // 20
std::vector<FaultCase> ForkCases();             // 21
/// One case of each kind with a tier between the fastest and the store, and pages in transit.
std::vector<FaultCase> ThreeTierCases();
/// Cases of 4 to 8, 12, 20 and 21 with a second drive that has no faults and room for everything.
std::vector<FaultCase> TwoDriveCases();

/// Whether the counted number is a registration, of which there are few.
bool CountsRegistrations(const FaultCase& fault);

/// Cases that also run on real media, which need no virtual disk.
std::vector<FaultCase> CasesOnMedia();

}  // namespace sluice::faults
