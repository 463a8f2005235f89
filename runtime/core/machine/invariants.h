#pragma once

namespace sluice::core {

struct ResidencyMachine;

/// Checks of I1 to I4 and I6 to I9 over all pages, which tests call. Checks of each step are where
/// the step is. Threads: externally synchronised.
class Invariants {
 public:
  explicit Invariants(const ResidencyMachine& machine) : m_(machine) {}

  /// Ends the program if an invariant does not hold.
  void Check() const;

 private:
  void CheckQueues() const;
  void CheckAnswers() const;

  const ResidencyMachine& m_;
};

}  // namespace sluice::core
