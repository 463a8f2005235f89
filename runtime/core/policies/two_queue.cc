#include "runtime/core/policies/two_queue.h"

namespace sluice::core {
namespace {

/// Kin and Kout of the paper, in percent of the frames.
constexpr std::uint64_t kInPercent = 25;
constexpr std::uint64_t kOutPercent = 50;

}  // namespace

void TwoQueue::Resize(std::uint64_t frames) {
  in_max_ = frames * kInPercent / 100;
  out_max_ = frames * kOutPercent / 100;
}

/// The page evicted for this one has been remembered already, and may have pushed it out.
void TwoQueue::Come(PageIndex page) {
  const bool again = out_.Contains(page);
  out_.Trim(out_max_);
  out_.Erase(page);
  (again ? main_ : in_).Add(page, ++clock_);
}

void TwoQueue::Use(PageIndex page, bool) {
  if (main_.Contains(page)) main_.Move(page, ++clock_);
}

void TwoQueue::Show(PageIndex page, bool shown) {
  in_.Show(page, shown);
  main_.Show(page, shown);
}

void TwoQueue::Leave(PageIndex page, bool victim) {
  if (in_.Remove(page) && victim) out_.Push(page);
  main_.Remove(page);
}

std::optional<PageIndex> TwoQueue::Victim(std::optional<PageIndex>, const Evictable& evictable) {
  const bool from_in = in_.size() > in_max_;
  const auto& first = from_in ? in_ : main_;
  const auto& second = from_in ? main_ : in_;
  if (const std::optional<PageIndex> page = first.First(evictable)) return page;
  return second.First(evictable);
}

}  // namespace sluice::core
