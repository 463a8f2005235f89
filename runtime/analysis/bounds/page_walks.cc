#include "runtime/analysis/bounds/page_walks.h"

#include <algorithm>

namespace sluice::analysis {

InWalk::InWalk(const PageUses& uses) : uses_(uses), kept_(uses) {}

void InWalk::BeginEmpty(std::uint32_t op) {
  kept_.Clear();
  fetches_ = 0;
  next_op_ = op;
}

void InWalk::BeginAfter(std::uint32_t op) {
  BeginEmpty((op + 1) % uses_.op_count());
  FillBeside(op);
  KeepUsesOf(op);
}

/// Fills the room beside the op, before it ends, with the pages whose first use comes soonest.
void InWalk::FillBeside(std::uint32_t op) {
  std::uint64_t room = uses_.room(op);
  for (std::uint32_t ops = 1; ops < uses_.op_count() && room > 0; ++ops) {
    const std::uint32_t later = (op + ops) % uses_.op_count();
    for (const PageUse& use : uses_.Of(later)) {
      if (!use.needs_content || use.previous_ops <= ops) continue;
      const std::uint64_t pages = std::min(use.pages, room);
      kept_.Insert(use.item, pages, later);
      room -= pages;
    }
  }
}

void InWalk::Step() {
  const std::uint32_t op = next_op_;
  for (const PageUse& use : uses_.Of(op)) {
    const std::uint64_t kept = kept_.Take(use.item);
    if (use.needs_content) fetches_ += use.pages - kept;
  }
  DropTo(uses_.room(op), op);
  KeepUsesOf(op);
  next_op_ = op + 1 < uses_.op_count() ? op + 1 : 0;
}

void InWalk::KeepUsesOf(std::uint32_t op) {
  for (const PageUse& use : uses_.Of(op)) {
    if (!use.next_keepable) continue;
    kept_.Insert(use.item, use.pages, (op + use.next_ops) % uses_.op_count());
  }
  DropTo(uses_.capacity(), op);
}

void InWalk::DropTo(std::uint64_t pages, std::uint32_t op) {
  if (kept_.total() > pages) kept_.DropFurthest(kept_.total() - pages, op);
}

OutWalk::OutWalk(const PageUses& uses)
    : uses_(uses), kept_(uses), fresh_until_(uses.item_count(), 0) {}

void OutWalk::BeginAfter(std::uint32_t op) {
  kept_.Clear();
  std::fill(fresh_until_.begin(), fresh_until_.end(), 0);
  copies_ = 0;
  now_ = 0;
  op_ = op;
  AddWritten(op);
}

void OutWalk::Step() {
  ++now_;
  op_ = op_ + 1 < uses_.op_count() ? op_ + 1 : 0;
  for (const MetBelow& met : uses_.MetAt(op_)) {
    if (met.ops <= now_) copies_ += met.pages;
  }
  const std::uint64_t room = uses_.room(op_) + EndAndCountOwn(op_);
  if (kept_.total() > room) {
    copies_ += kept_.total() - room;
    kept_.DropFurthest(kept_.total() - room, op_);
  }
  AddWritten(op_);
}

/// Ends what the op needs last. Pages of the op whose fresh content lives on are held by the op
/// anyway, so they take no room beside it.
std::uint64_t OutWalk::EndAndCountOwn(std::uint32_t op) {
  std::uint64_t own = 0;
  const bool held = uses_.pinned(op) > 0;
  for (const PageUse& use : uses_.Of(op)) {
    if (fresh_until_[use.item] == now_) kept_.Take(use.item);
    if (fresh_until_[use.item] > now_ && held) own += use.pages;
  }
  return own;
}

void OutWalk::AddWritten(std::uint32_t op) {
  for (const PageUse& use : uses_.Of(op)) {
    if (use.fresh_ops == 0) continue;
    kept_.Insert(use.item, use.pages, (op + use.fresh_ops) % uses_.op_count());
    fresh_until_[use.item] = now_ + use.fresh_ops;
  }
}

}  // namespace sluice::analysis
