#include "runtime/analysis/bounds/interval_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace sluice::analysis {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

}  // namespace

IntervalPool::IntervalPool(const PageUses& uses)
    : uses_(uses),
      items_(uses.item_count()),
      ending_(uses.op_count(), 0),
      bits_(uses.op_count() / 64 + 1, 0) {}

void IntervalPool::Clear() {
  std::fill(items_.begin(), items_.end(), Interval{});
  std::fill(ending_.begin(), ending_.end(), 0);
  std::fill(bits_.begin(), bits_.end(), 0);
  total_ = 0;
}

void IntervalPool::Insert(std::uint32_t item, std::uint64_t pages, std::uint32_t end_op) {
  if (pages == 0) return;
  items_[item] = {pages, end_op};
  ending_[end_op] += pages;
  bits_[end_op / 64] |= std::uint64_t{1} << (end_op % 64);
  total_ += pages;
}

std::uint64_t IntervalPool::Take(std::uint32_t item) {
  const std::uint64_t pages = items_[item].pages;
  if (pages > 0) Remove(item, pages);
  return pages;
}

void IntervalPool::DropFurthest(std::uint64_t pages, std::uint32_t now_op) {
  SLUICE_CHECK(pages <= total_, "more pages dropped than are kept");
  while (pages > 0) {
    const std::uint32_t end_op = FurthestEnd(now_op);
    for (const PageUse& use : uses_.Of(end_op)) {
      const Interval& interval = items_[use.item];
      if (interval.pages == 0 || interval.end_op != end_op) continue;
      const std::uint64_t dropped = std::min(pages, interval.pages);
      Remove(use.item, dropped);
      pages -= dropped;
      if (pages == 0) return;
    }
  }
}

void IntervalPool::Remove(std::uint32_t item, std::uint64_t pages) {
  Interval& interval = items_[item];
  const std::uint32_t end_op = interval.end_op;
  interval.pages -= pages;
  if (interval.pages == 0) interval.end_op = 0;
  total_ -= pages;
  ending_[end_op] -= pages;
  if (ending_[end_op] > 0) return;
  bits_[end_op / 64] &= ~(std::uint64_t{1} << (end_op % 64));
}

std::uint32_t IntervalPool::FurthestEnd(std::uint32_t now_op) const {
  const std::uint32_t wrapped = LastEndUpTo(now_op);
  return wrapped != kNone ? wrapped : LastEndUpTo(uses_.op_count() - 1);
}

std::uint32_t IntervalPool::LastEndUpTo(std::uint32_t op) const {
  std::uint32_t word = op / 64;
  std::uint64_t bits = bits_[word] & (~std::uint64_t{0} >> (63 - op % 64));
  while (bits == 0) {
    if (word == 0) return kNone;
    bits = bits_[--word];
  }
  return word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(bits));
}

}  // namespace sluice::analysis
