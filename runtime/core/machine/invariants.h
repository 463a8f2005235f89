#pragma once

namespace sluice::core {

struct Machine;

/// The checks of the invariants I1 to I9, for tests and debug builds. Threads: externally
/// synchronised.
class Invariants {
 public:
  explicit Invariants(Machine& machine) : m_(machine) {}

  void CheckInvariants() const;

 private:
  void CheckQueues() const;
  void CheckAnswers() const;

  Machine& m_;
};

}  // namespace sluice::core
