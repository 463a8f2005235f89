#include "tests/faults/cases/fault_cases.h"

namespace sluice::faults {
namespace {

/// Cases with seeds, or with refused submissions, need the virtual disk.
bool RunsOnMedia(const FaultCase& fault) {
  return !fault.seeds && fault.options.disk.refusal.times == 0;
}

}  // namespace

bool CountsRegistrations(const FaultCase& fault) {
  return fault.options.plan.kind == testing::FaultPlan::Kind::kUnregistered;
}

std::vector<FaultCase> CasesOnMedia() {
  std::vector<FaultCase> chosen;
  for (const auto& cases : {ShortCountCases(),
                            PassingErrorCases(),
                            UnreadablePageCases(),
                            WriteErrorCases(),
                            CorruptionCases(),
                            LostWriteCases(),
                            RegistrationCases(),
                            FullRingCases(),
                            SlowAttemptCases(),
                            OutOfOrderCases(),
                            RefusedDirectIoCases(),
                            DestructionCases(),
                            ForkCases(),
                            TwoDriveCases()}) {
    for (const FaultCase& fault : cases) {
      if (RunsOnMedia(fault)) chosen.push_back(fault);
    }
  }
  return chosen;
}

}  // namespace sluice::faults
