#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/faults/hosts/store_host.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::faults {

/// Registers the frames from which pages enter the store, piece by piece, again and again. Checks
/// that all pieces are registered that the plan lets pass, and that each refusal is reported.
/// Threads: that of the executor.
class FrameRegistration {
 public:
  /// All parts outlive the object. `frames` is a whole number of pieces of two pages.
  FrameRegistration(StoreHost& host,
                    std::span<std::byte> frames,
                    std::uint64_t page_bytes,
                    const testing::FaultPlan& plan,
                    core::Verdict& verdict);

  /// Registers the next piece if its turn has come; called before each step of a trace. So attempts
  /// use memory of both kinds, and some are in flight.
  void Advance(std::size_t step, std::size_t steps);
  /// Checks the registered pieces, then registers all again without the refusals that came once.
  /// REQUIRES: nothing is in flight.
  void Repeat();
  /// Repeats the registration after the plan's fault has gone.
  void RepeatHealed();

 private:
  void RegisterNext();
  void RegisterAnew();
  void Check();
  std::uint64_t PassingBytes() const;
  bool Refused(std::uint64_t registration) const;

  StoreHost& host_;
  const testing::FaultPlan plan_;
  core::Verdict& verdict_;
  std::vector<std::span<std::byte>> pieces_;
  std::uint64_t registrations_ = 0;
  bool healed_ = false;
};

}  // namespace sluice::faults
