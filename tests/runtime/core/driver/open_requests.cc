#include "tests/runtime/core/driver/open_requests.h"

#include <algorithm>

#include "fmt/format.h"

namespace sluice::core {

void OpenRequests::Ask(const FreePages& free) {
  shadow_->Free(free.first_page, free.pages);
  freeing_.insert({free.first_page, free.pages});
}

void OpenRequests::Ask(const SetBudget& budget) {
  // Frames to be vacated count as usable until the answer.
  const FrameIndex before = frames_->limit(budget.tier);
  budget_asked_[budget.tier] = {before, budget.frames};
  frames_->SetLimit(budget.tier, std::max(before, budget.frames));
}

void OpenRequests::End(const ReleaseFrames& release) {
  const FramesReserved& reserved = reserved_.at(release.reservation);
  frames_->Unreserve(reserving_.at(release.reservation).tier, reserved.frames);
  reserving_.erase(release.reservation);
  reserved_.erase(release.reservation);
}

void OpenRequests::Answer(const SegmentCreated& created) {
  const auto found = creating_.find(created.segment);
  if (found == creating_.end()) return verdict_->Fail("a segment nobody asked for");
  shadow_->Create(found->second, created.committed);
  creating_.erase(found);
}

void OpenRequests::Answer(const PagesFreed& freed) {
  const auto found = freeing_.find({freed.first_page, freed.pages});
  if (found == freeing_.end()) return verdict_->Fail("freed what nobody asked to free");
  freeing_.erase(found);
  frames_->ForgetPages(freed.first_page, freed.pages);
  shadow_->Remove(freed.first_page, freed.pages);
}

void OpenRequests::Answer(const FramesReserved& reserved) {
  const auto found = reserving_.find(reserved.reservation);
  if (found == reserving_.end() || found->second.frames != reserved.frames.size()) {
    return verdict_->Fail(fmt::format("a wrong answer to reservation {}", reserved.reservation));
  }
  frames_->Reserve(found->second.tier, reserved.frames);
  reserved_[reserved.reservation] = reserved;
}

void OpenRequests::Answer(const BudgetSet& set) {
  const auto found = budget_asked_.find(set.tier);
  if (found == budget_asked_.end() || set.frames != found->second.second) {
    return verdict_->Fail(fmt::format("a wrong answer to the budget of tier {}", set.tier));
  }
  budget_asked_.erase(found);
  frames_->SetLimit(set.tier, set.frames);
  frames_->CheckVacated(set.tier);
}

void OpenRequests::Answer(const BudgetRefused& refused) {
  frames_->SetLimit(refused.tier, budget_asked_[refused.tier].first);
  budget_asked_.erase(refused.tier);
}

void OpenRequests::CheckAnswered() {
  if (!freeing_.empty()) verdict_->Fail("a FreePages hangs");
  if (reserving_.size() != reserved_.size()) verdict_->Fail("a reservation hangs");
  if (!budget_asked_.empty()) verdict_->Fail("a SetBudget hangs");
  if (!creating_.empty()) verdict_->Fail("a CreateSegment hangs");
}

}  // namespace sluice::core
