#include <cerrno>

#include "tests/faults/cases/fault_cases.h"
#include "tests/faults/cases/fault_plans.h"

namespace sluice::faults {
namespace {

using Kind = FaultPlan::Kind;

/// Slots of both drives. Half of them are more than the pages that the trace writes and loses.
constexpr core::FrameIndex kSlots = 400;
/// A drive that refuses three pages in a row has failed.
constexpr std::uint64_t kWritesToFence = 3;

constexpr Remedies kMovesOn{.moves = true};
constexpr Remedies kMovesOnAndFails{.moves = true, .fences = true};
constexpr Remedies kRetiresAndFails{.retires = true, .moves = true, .fences = true};

/// A page that one drive refuses goes to another drive: no user notices.
FaultCase GoesOn(const std::string& name, const FaultPlan& plan, const Remedies& remedies) {
  return {.name = name, .options = WithPlan(plan), .remedies = remedies};
}

FaultCase GoesOnLater(const std::string& name, const FaultPlan& plan) {
  FaultCase fault = GoesOn(name, plan, kMovesOn);
  fault.counter = Counter::kRetries;
  return fault;
}

FaultCase LostFromThereOn(const std::string& name, const FaultPlan& plan, Target target) {
  FaultCase fault = Lost(name, WithPlan(plan, target));
  fault.remedies = kRetiresAndFails;
  return fault;
}

FaultCase Destroyed(const std::string& name, const FaultPlan& plan) {
  FaultCase fault{.name = name, .options = WithPlan(plan), .remedies = kMovesOn};
  fault.options.act = Act::kDestroy;
  return fault;
}

void AddReads(std::vector<FaultCase>* cases) {
  const FaultPlan eio = Error(kRead, EIO, kAlways);
  cases->push_back(Unreadable("ReadEioStaysOfAReproduciblePage", eio, Target::kReproducible));
  cases->push_back(Unreadable("ReadEioStaysOfASoleCopy", eio, Target::kSoleCopy));
  FaultCase everywhere = Unreadable("ReadEioEverywhere", Everywhere(eio), Target::kAny);
  everywhere.seen = Seen::kLoss;
  everywhere.remedies = kRetiresAndFails;
  cases->push_back(everywhere);
  // Nothing is lost: it is all there once the drive is back.
  const FaultPlan gone = Everywhere(Refused(kRead, ENODEV, kAlways));
  FaultCase enodev = Stays("ReadEnodevEverywhere", gone, absl::StatusCode::kInternal);
  enodev.remedies = kMovesOnAndFails;
  cases->push_back(enodev);
}

void AddWriteErrors(std::vector<FaultCase>* cases) {
  const auto eio = [](std::uint64_t times) { return Refused(kWrite, EIO, times); };
  const FaultPlan enospc = Error(kWrite, ENOSPC, kAlways);
  cases->push_back(GoesOn("WriteEioOnce", eio(1), kMovesOn));
  cases->push_back(GoesOn("WriteEioStaysInOnePlace", eio(kAlways), kMovesOn));
  // Writes in flight succeed after the third refusal, on a drive that has failed by then. They go
  // on to another drive all the same.
  cases->push_back(GoesOn("WriteEioThrice", Everywhere(eio(kWritesToFence)), kMovesOnAndFails));
  cases->push_back(GoesOn("WriteEioEverywhere", Everywhere(eio(kAlways)), kMovesOnAndFails));
  cases->push_back(GoesOn("WriteEnospcOnce", Refused(kWrite, ENOSPC, 1), kMovesOn));
  cases->push_back(GoesOn("WriteEnospcEverywhere", Everywhere(enospc), kMovesOn));
  cases->push_back(
      GoesOnLater("WriteEagainEverywhere", Everywhere(Refused(kWrite, EAGAIN, kAlways))));
}

void AddLostWrites(std::vector<FaultCase>* cases) {
  const auto lost = [&](const std::string& name, Kind kind, Target target) {
    cases->push_back(Lost(name, WithPlan(Silent(kWrite, kind), target)));
    cases->push_back(LostFromThereOn(name + "FromThereOn", FromThereOn(kWrite, kind), target));
  };
  lost("WriteFlip", Kind::kFlip, Target::kAny);
  lost("WriteLost", Kind::kLostWrite, Target::kAny);
  lost("WriteStale", Kind::kStaleWrite, Target::kRewritten);
  lost("WriteMisdirected", Kind::kMisdirected, Target::kAny);
}

}  // namespace

std::vector<FaultCase> TwoDriveCases() {
  std::vector<FaultCase> cases = {
      Unregistered("RegistrationRefusedOnce", 0, 1),
      Unregistered("RegistrationRefusedFromThereOn", 0, kAlways),
      Destroyed("DestroyedWhileWritesMoveOn", Everywhere(Refused(kWrite, EIO, kAlways))),
  };
  AddReads(&cases);
  AddWriteErrors(&cases);
  AddLostWrites(&cases);
  for (const auto& of_one_drive : {DestructionCases(), ForkCases()}) {
    cases.insert(cases.end(), of_one_drive.begin(), of_one_drive.end());
  }
  for (FaultCase& fault : cases) {
    fault.name += "OnTwoDrives";
    fault.options.drives = 2;
    fault.options.pager.frames.back() = kSlots;
  }
  return cases;
}

}  // namespace sluice::faults
