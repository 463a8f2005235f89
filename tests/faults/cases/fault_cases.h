#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/faults/trace/trace_run.h"

namespace sluice::faults {

/// What the user of tensors may notice of a fault.
enum class Seen : std::uint8_t {
  kNothing,
  kLoss,  ///< ops on the page that was harmed fail, by its name
  kFull,  ///< ops that need room, or the page that cannot be brought, fail; nothing is lost
};

/// What grows when the fault strikes.
enum class Counter : std::uint8_t { kNone, kShortIo, kRetries, kChecksumFailures };

/// What the set of drives does against a fault, in some runs; what is false it never does.
struct Remedies {
  bool retires = false;  ///< a place for every page that is lost
  bool moves = false;    ///< writes go on to the next drive
  bool fences = false;   ///< the drive counts as failed
};

/// A fault, and what must come of it whichever attempt it strikes.
struct FaultCase {
  std::string name;
  RunOptions options;
  /// What a read or write of the store may answer; none: none fails.
  std::optional<absl::StatusCode> code;
  Seen seen = Seen::kNothing;
  /// Every strike makes the store fail, and the user sees it in some runs at least.
  bool certain = false;
  Counter counter = Counter::kNone;
  Remedies remedies;
  /// The number is that of a seed, not of an attempt.
  bool seeds = false;
};

std::ostream& operator<<(std::ostream& out, const FaultCase& fault);

// By what goes wrong. The numbers are those of the classes that tests/faults/README.md lists.
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
/// One of each kind with a tier between the fastest and the store, and pages in transit.
std::vector<FaultCase> ThreeTierCases();
/// Those of 4 to 8, 12, 20 and 21 where a second drive has no faults, and room for everything.
std::vector<FaultCase> TwoDriveCases();

/// The number is that of a registration: there are few.
bool CountsRegistrations(const FaultCase& fault);

/// Those that also run on real media: all but what only a virtual disk can be made to do.
std::vector<FaultCase> CasesOnMedia();

}  // namespace sluice::faults
