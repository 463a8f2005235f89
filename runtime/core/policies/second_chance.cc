#include "runtime/core/policies/second_chance.h"

namespace sluice::core {

/// Victim at the hand. If every bit is set, the hand comes round to the first bit it has cleared.
std::optional<PageIndex> Clock::Victim(std::optional<PageIndex>, const Evictable& evictable) {
  passed_.clear();
  answer_.reset();
  for (const auto& [place, page] : order_.shown()) {
    if (!evictable(page)) continue;
    if (!used_.contains(page)) return answer_ = page;
    passed_.push_back(page);
  }
  if (!passed_.empty()) answer_ = passed_.front();
  return answer_;
}

void Clock::Leave(PageIndex page, bool victim) {
  if (victim && answer_ == page) {
    for (const PageIndex passed : passed_) {
      if (!order_.Contains(passed)) continue;
      used_.erase(passed);
      order_.Move(passed, ++clock_);
    }
  }
  answer_.reset();
  order_.Remove(page);
  used_.erase(page);
}

void Sieve::Come(PageIndex page) {
  order_.Add(page, ++clock_);
  places_.insert(clock_);
}

void Sieve::Use(PageIndex page, bool first) {
  if (!first) visited_.insert(page);
}

std::optional<PageIndex> Sieve::Victim(std::optional<PageIndex>, const Evictable& evictable) {
  passed_.clear();
  answer_.reset();
  const auto& shown = order_.shown();
  const auto hand = shown.lower_bound({hand_, 0});
  const auto look = [&](auto from, auto to) {
    for (auto it = from; it != to; ++it) {
      if (!evictable(it->second)) continue;
      if (!visited_.contains(it->second)) {
        answer_ = it->second;
        return true;
      }
      passed_.push_back(it->second);
    }
    return false;
  };
  if (look(hand, shown.end()) || look(shown.begin(), hand)) return answer_;
  if (!passed_.empty()) answer_ = passed_.front();
  return answer_;
}

void Sieve::Leave(PageIndex page, bool victim) {
  const std::uint64_t place = order_.KeyOf(page);
  const bool moves = victim && answer_ == page;
  if (moves) {
    for (const PageIndex passed : passed_) visited_.erase(passed);
  }
  if (moves || hand_ == place) {
    const auto newer = places_.upper_bound(place);
    hand_ = newer == places_.end() ? 0 : *newer;
  }
  answer_.reset();
  places_.erase(place);
  order_.Remove(page);
  visited_.erase(page);
}

}  // namespace sluice::core
