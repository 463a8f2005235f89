#include "runtime/core/policies/arc.h"

#include <algorithm>

namespace sluice::core {

void Arc::Resize(std::uint64_t frames) {
  c_ = static_cast<double>(std::max<std::uint64_t>(frames, 1));
  p_ = std::min(p_, c_);
}

double Arc::TargetAfter(std::optional<PageIndex> page) const {
  if (!page.has_value() || adapted_.contains(*page)) return p_;
  const auto b1 = static_cast<double>(b1_.size());
  const auto b2 = static_cast<double>(b2_.size());
  if (b1_.Contains(*page)) return std::min(c_, p_ + std::max(b2 / b1, 1.0));
  if (b2_.Contains(*page)) return std::max(0.0, p_ - std::max(b1 / b2, 1.0));
  return p_;
}

/// Adapts p as the paper does, before anything leaves, since the lengths of the ghost lists count.
void Arc::Adapt(PageIndex page) {
  p_ = TargetAfter(page);
  if (b1_.Contains(page) || b2_.Contains(page)) adapted_.insert(page);
}

/// The paper trims before it evicts, and then remembers the victim; here the victim of an arrival
/// is remembered before it: the same pages are forgotten, but one that came is asked for first.
void Arc::Come(PageIndex page) {
  Adapt(page);
  adapted_.erase(page);
  if (b1_.Erase(page) || b2_.Erase(page)) {
    t2_.Add(page, ++clock_);
  } else {
    TrimGhosts();
    t1_.Add(page, ++clock_);
  }
}

/// Case IV: room for one more page in L1 = T1 + B1 (c pages) and in both (2c).
void Arc::TrimGhosts() {
  const auto c = static_cast<std::size_t>(c_);
  while (b1_.size() > 0 && t1_.size() + b1_.size() >= c) adapted_.erase(b1_.DropOldest());
  while (b2_.size() > 0 && t1_.size() + b1_.size() + t2_.size() + b2_.size() >= 2 * c) {
    adapted_.erase(b2_.DropOldest());
  }
}

void Arc::Use(PageIndex page, bool first) {
  if (first) return;
  if (t1_.Contains(page)) {
    const bool shown = t1_.IsShown(page);
    t1_.Remove(page);
    t2_.Add(page, ++clock_, shown);
  } else {
    t2_.Move(page, ++clock_);
  }
}

void Arc::Show(PageIndex page, bool shown) {
  t1_.Show(page, shown);
  t2_.Show(page, shown);
}

void Arc::Leave(PageIndex page, bool victim) {
  if (victim && incoming_.has_value()) Adapt(*incoming_);
  incoming_.reset();
  if (t1_.Remove(page)) {
    if (victim) b1_.Push(page);
  } else if (t2_.Remove(page) && victim) {
    b2_.Push(page);
  }
}

void Arc::Forget(PageIndex page) {
  b1_.Erase(page);
  b2_.Erase(page);
  adapted_.erase(page);
}

/// REPLACE. Who is not remembered while T1 has all frames displaces a page of T1 (case IV).
std::optional<PageIndex> Arc::Victim(std::optional<PageIndex> incoming,
                                     const Evictable& evictable) {
  incoming_ = incoming;
  const double p = TargetAfter(incoming);
  const bool in_b2 = incoming.has_value() && b2_.Contains(*incoming);
  const auto t1 = static_cast<double>(t1_.size());
  const bool from_t1 = t1 > 0 && (t1 > p || (in_b2 && t1 == p));
  const auto& first = from_t1 ? t1_ : t2_;
  const auto& second = from_t1 ? t2_ : t1_;
  if (const std::optional<PageIndex> page = first.First(evictable)) return page;
  return second.First(evictable);
}

}  // namespace sluice::core
