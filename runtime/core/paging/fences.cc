#include "runtime/core/paging/fences.h"

#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

/// Copies down in a row that a tier refused, after which it counts as taking no pages.
constexpr std::uint32_t kWriteFailuresMax = 3;

}  // namespace

void Fences::NoteWrite(TierIndex tier) {
  m_.tiers[tier].write_failures = 0;
  Lift(tier);
}

void Fences::NoteWriteFailure(TierIndex tier) {
  TierState& target = m_.tiers[tier];
  if (++target.write_failures < kWriteFailuresMax) return;
  target.write_failures = 0;
  if (!target.fenced) m_.Emit(FenceTier{tier});
  target.fenced = true;
  target.fenced_before = m_.next_arrival;
}

bool Fences::LiftBefore(std::uint64_t arrival) {
  bool lifted = false;
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (!m_.tiers[t].fenced || arrival < m_.tiers[t].fenced_before) continue;
    Lift(t);
    lifted = true;
  }
  return lifted;
}

void Fences::LiftAll() {
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) NoteWrite(t);
}

/// Pages doomed in the last tier were free to leave the others while there was nowhere else to go.
void Fences::Lift(TierIndex tier) {
  if (!m_.tiers[tier].fenced) return;
  m_.tiers[tier].fenced = false;
  if (tier != m_.last_tier()) return;
  for (PageIndex index = 0; index < m_.pages.size(); ++index) {
    if (m_.pages[index].copies[tier].doomed) m_.facts.Update(index);
  }
}

}  // namespace sluice::core
