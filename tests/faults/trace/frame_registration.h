#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/faults/hosts/store_host.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::faults {

/// Registers the frames from which pages enter the store, piece by piece, again and again, and sees
/// that what the plan lets pass is registered and of what it refuses somebody is told.
/// Threads: that of the executor.
class FrameRegistration {
 public:
  /// Everything outlives it; `frames` is a whole number of pieces of two pages.
  FrameRegistration(StoreHost& host,
                    std::span<std::byte> frames,
                    std::uint64_t page_bytes,
                    const testing::FaultPlan& plan,
                    core::Verdict& verdict);

  /// Before each step of a trace: a piece when it is its turn, so that attempts use memory of both
  /// kinds, and some are in flight.
  void Advance(std::size_t step, std::size_t steps);
  /// Checks what is registered, and registers all of it anew: what was refused once is not now.
  /// REQUIRES: nothing is in flight.
  void Repeat();
  /// The same after the plan's fault has gone.
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
