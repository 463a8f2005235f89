#include "runtime/core/policies/s3_fifo.h"

#include <algorithm>

namespace sluice::core {
namespace {

/// Sizes of the small queue and of the list of evicted pages, in percent of the frames.
constexpr std::uint64_t kSmallPercent = 10;
constexpr std::uint64_t kGhostPercent = 90;
constexpr std::uint8_t kUsesMax = 3;
/// Most uses that leave a page in the small queue; more take it to the main one.
constexpr std::uint8_t kUsesToStay = 1;

}  // namespace

void S3Fifo::Resize(std::uint64_t frames) {
  frames_ = frames;
  ghost_.Trim(frames_ * kGhostPercent / 100);
}

void S3Fifo::Come(PageIndex page) {
  (ghost_.Erase(page) ? main_ : small_).Add(page, ++clock_);
  uses_[page] = 0;
}

void S3Fifo::Use(PageIndex page, bool first) {
  std::uint8_t& uses = uses_.at(page);
  if (!first) uses = std::min<std::uint8_t>(static_cast<std::uint8_t>(uses + 1), kUsesMax);
}

void S3Fifo::Show(PageIndex page, bool shown) {
  small_.Show(page, shown);
  main_.Show(page, shown);
}

/// Looks for a victim in the small queue as long as that has its share, or to the end.
bool S3Fifo::LookInSmall(const Evictable& evictable, bool to_the_end) {
  std::uint64_t left = small_.size();
  for (const auto& [place, page] : small_.shown()) {
    if (!to_the_end && left * 100 < frames_ * kSmallPercent) return false;
    if (!evictable(page)) continue;
    if (uses_.at(page) <= kUsesToStay) {
      moves_.answer = page;
      return true;
    }
    moves_.promoted.push_back(page);
    --left;
  }
  return false;
}

/// Every round takes one use from each page, so the victim is the first of those with the fewest.
/// Pages that have just been promoted are at the end, without a use.
bool S3Fifo::LookInMain(const Evictable& evictable) {
  moves_.rounds = UINT8_MAX;
  for (const auto& [place, page] : main_.shown()) {
    if (!evictable(page)) continue;
    moves_.looked_at.push_back(page);
    const std::uint8_t uses = uses_.at(page);
    if (uses >= moves_.rounds) continue;
    moves_.rounds = uses;
    moves_.answer = page;
    if (uses == 0) return true;
  }
  if (!moves_.promoted.empty()) {
    moves_.rounds = 0;
    moves_.answer = moves_.promoted.front();
    moves_.looked_at.push_back(*moves_.answer);
  }
  return moves_.answer.has_value();
}

std::optional<PageIndex> S3Fifo::Victim(std::optional<PageIndex>, const Evictable& evictable) {
  moves_ = Moves{};
  if (LookInSmall(evictable, false) || LookInMain(evictable)) return moves_.answer;
  moves_ = Moves{};
  if (LookInSmall(evictable, true)) return moves_.answer;
  if (!moves_.promoted.empty()) moves_.answer = moves_.promoted.front();
  return moves_.answer;
}

void S3Fifo::CarryOut() {
  for (const PageIndex page : moves_.promoted) {
    if (!small_.Contains(page)) continue;
    const bool shown = small_.IsShown(page);
    small_.Remove(page);
    main_.Add(page, ++clock_, shown);
    uses_.at(page) = 0;
  }
  bool before = true;
  for (const PageIndex page : moves_.looked_at) {
    before = before && page != *moves_.answer;
    if (!main_.Contains(page) || page == *moves_.answer) continue;
    std::uint8_t& uses = uses_.at(page);
    uses = static_cast<std::uint8_t>(uses - std::min<int>(uses, moves_.rounds + (before ? 1 : 0)));
    if (before) main_.Move(page, ++clock_);
  }
}

void S3Fifo::Leave(PageIndex page, bool victim) {
  if (victim && moves_.answer == page) CarryOut();
  moves_ = Moves{};
  if (small_.Remove(page) && victim) {
    ghost_.Push(page);
    ghost_.Trim(frames_ * kGhostPercent / 100);
  }
  main_.Remove(page);
  uses_.erase(page);
}

}  // namespace sluice::core
