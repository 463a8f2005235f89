#pragma once

#include <optional>

#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {

/// Two tiers whose copies and fills can be made to fail.
class FaultsTest : public CoreFixture {
 protected:
  void StartTwoTiers(FrameIndex fast) { Start({.frames = {fast, 64}, .policy = "lru"}); }

  /// Page `page` with bytes, in the last of two tiers only.
  void WriteDown(PageIndex page, PageIndex other) {
    RunOp({Write(page)});
    RunOp({Read(other)});
    ASSERT_FALSE(Resident(page, 0));
  }
  void FailAll(FailureKind kind) {
    driver().set_fault([kind](TaskNumber, const SimTask&) { return kind; });
  }
  void FailCopiesTo(TierIndex tier, FailureKind kind) {
    driver().set_fault([=](TaskNumber, const SimTask& task) -> std::optional<FailureKind> {
      if (task.copy() == nullptr || task.target != tier) return std::nullopt;
      return kind;
    });
  }
  void FailNothing() { driver().set_fault(nullptr); }
  /// Abandons every frame of the last of two tiers.
  void AbandonAll() {
    AbandonCopies event;
    for (FrameIndex frame = 0; frame < 64; ++frame) event.frames.push_back(frame);
    driver().Send(event);
  }
};

}  // namespace sluice::core
