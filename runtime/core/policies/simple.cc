#include "runtime/core/policies/simple.h"

#include <algorithm>

namespace sluice::core {
namespace {

constexpr std::uint64_t kFetchCost = 1;
/// Further cost of a page that has to be written to leave.
constexpr std::uint64_t kWriteCost = 1;

}  // namespace

void Gdsf::Come(PageIndex page) {
  const Worth worth{inflation_, 1, kFetchCost, ++clock_};
  worth_[page] = worth;
  order_.Add(page, RankOf(worth));
}

void Gdsf::Use(PageIndex page, bool first) {
  Worth& worth = worth_.at(page);
  worth.base = inflation_;
  worth.uses += first ? 0 : 1;
  worth.last_use = ++clock_;
  order_.Move(page, RankOf(worth));
}

void Gdsf::SetDirty(PageIndex page, bool dirty) {
  Worth& worth = worth_.at(page);
  worth.cost = kFetchCost + (dirty ? kWriteCost : 0);
  order_.Move(page, RankOf(worth));
}

void Gdsf::Leave(PageIndex page, bool victim) {
  if (victim) inflation_ = std::max(inflation_, order_.KeyOf(page).first);
  order_.Remove(page);
  worth_.erase(page);
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t RandomReplacement::Next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void RandomReplacement::Show(PageIndex page, bool shown) {
  const auto found = where_.find(page);
  if (shown == (found != where_.end())) return;
  if (shown) {
    where_[page] = shown_.size();
    shown_.push_back(page);
    return;
  }
  const std::size_t place = found->second;
  where_.erase(found);
  if (place + 1 < shown_.size()) {
    shown_[place] = shown_.back();
    where_[shown_[place]] = place;
  }
  shown_.pop_back();
}

void RandomReplacement::Leave(PageIndex page, bool victim) {
  Show(page, false);
  if (victim) draw_ = Next();
}

/// The first page from a random place on that may leave.
std::optional<PageIndex> RandomReplacement::Victim(std::optional<PageIndex>,
                                                   const Evictable& evictable) {
  const std::size_t count = shown_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const PageIndex page = shown_[(draw_ % count + i) % count];
    if (evictable(page)) return page;
  }
  return std::nullopt;
}

}  // namespace sluice::core
