#include "runtime/analysis/bounds/page_uses.h"

#include <cstddef>

namespace sluice::analysis {
namespace {

/// Whether each visit finds a good copy. The item's previous visit above (cyclically) left one if
/// no op below wrote the page in between.
std::vector<bool> CopyStillGood(std::span<const PageVisit> visits) {
  std::vector<bool> good(visits.size());
  bool copy_good = false;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < visits.size(); ++i) {
      good[i] = copy_good;
      if (visits[i].above) copy_good = true;
      if (!visits[i].above && visits[i].writes) copy_good = false;
    }
  }
  return good;
}

/// Ops from one to the other, cyclically; op_count from an op to itself.
std::uint32_t Distance(std::uint32_t from, std::uint32_t to, std::uint32_t op_count) {
  return to > from ? to - from : to + op_count - from;
}

std::vector<std::size_t> IndicesAbove(std::span<const PageVisit> visits) {
  std::vector<std::size_t> above;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    if (visits[i].above) above.push_back(i);
  }
  return above;
}

}  // namespace

PageUses::PageUses(const PageVisits& visits, std::uint64_t capacity)
    : capacity_(capacity),
      item_count_(static_cast<std::uint32_t>(visits.visits.size())),
      pinned_(visits.op_count, 0),
      met_(visits.op_count) {
  std::vector<std::vector<PageUse>> ops(visits.op_count);
  for (std::uint32_t item = 0; item < item_count_; ++item) {
    AddItem(item, visits.pages[item], visits.visits[item], &ops);
  }
  Flatten(ops);
}

void PageUses::AddItem(std::uint32_t item,
                       std::uint64_t pages,
                       std::span<const PageVisit> visits,
                       std::vector<std::vector<PageUse>>* ops) {
  const std::vector<bool> good = CopyStillGood(visits);
  const std::vector<std::size_t> above = IndicesAbove(visits);
  for (std::size_t i = 0; i < above.size(); ++i) {
    const PageVisit& visit = visits[above[i]];
    const std::size_t next = above[(i + 1) % above.size()];
    const std::size_t previous = above[(i + above.size() - 1) % above.size()];
    (*ops)[visit.op].push_back({.item = item,
                                .pages = pages,
                                .needs_content = visit.alive_before,
                                .previous_ops = Distance(visits[previous].op, visit.op, op_count()),
                                .next_ops = Distance(visit.op, visits[next].op, op_count()),
                                .next_keepable = visits[next].alive_before && good[next],
                                .fresh_ops = visit.fresh_meets_below ? 0 : visit.fresh_ops});
    if (!visit.fresh_meets_below) continue;
    met_[(visit.op + visit.fresh_ops) % op_count()].push_back({pages, visit.fresh_ops});
  }
}

void PageUses::Flatten(const std::vector<std::vector<PageUse>>& ops) {
  for (std::size_t op = 0; op < ops.size(); ++op) {
    begin_.push_back(uses_.size());
    std::uint64_t pages = 0;
    for (const PageUse& use : ops[op]) {
      uses_.push_back(use);
      pages += use.pages;
    }
    pinned_[op] = pages <= capacity_ ? pages : 0;
  }
  begin_.push_back(uses_.size());
}

}  // namespace sluice::analysis
