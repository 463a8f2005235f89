#include "runtime/core/plan/link_calendar.h"

#include <algorithm>

namespace sluice::core {
namespace {

/// Part of a page that counts as none.
constexpr double kNothing = 1e-6;

}  // namespace

LinkCalendar::LinkCalendar(std::span<const double> step_seconds, const PlanLink& link)
    : link_(link), in_(step_seconds.begin(), step_seconds.end()), out_(in_) {
  if (link.both_s > 0) both_ = in_;
}

double LinkCalendar::OutPages(std::size_t step) const {
  const double pages = out_[step] / link_.out_s;
  return both_.empty() ? pages : std::min(pages, both_[step] / link_.both_s);
}

double LinkCalendar::InPages(std::size_t step) const {
  const double pages = in_[step] / link_.in_s;
  return both_.empty() ? pages : std::min(pages, both_[step] / link_.both_s);
}

std::uint64_t LinkCalendar::OutDone(std::uint64_t from, std::uint64_t end, double pages) const {
  if (in_.empty()) return from;
  for (std::uint64_t at = from; at < end; ++at) {
    pages -= OutPages(at % out_.size());
    if (pages <= kNothing) return at + 1;
  }
  return end;
}

std::uint64_t LinkCalendar::InBegin(std::uint64_t from, std::uint64_t end, double pages) const {
  if (in_.empty()) return end;
  for (std::uint64_t at = end; at > from; --at) {
    pages -= InPages((at - 1) % in_.size());
    if (pages <= kNothing) return at - 1;
  }
  return from;
}

std::uint64_t LinkCalendar::OutBegin(std::uint64_t from, std::uint64_t end, double pages) const {
  for (std::uint64_t at = end; at > from; --at) {
    pages -= OutPages((at - 1) % out_.size());
    if (pages <= kNothing) return at - 1;
  }
  return from;
}

void LinkCalendar::TakeOut(std::uint64_t from, std::uint64_t end, double pages) {
  if (in_.empty()) return;
  for (std::uint64_t at = from; at < end && pages > kNothing; ++at) {
    const std::size_t step = at % out_.size();
    const double taken = std::min(pages, OutPages(step));
    out_[step] -= taken * link_.out_s;
    if (!both_.empty()) both_[step] -= taken * link_.both_s;
    pages -= taken;
  }
}

void LinkCalendar::TakeIn(std::uint64_t from, std::uint64_t end, double pages) {
  if (in_.empty()) return;
  for (std::uint64_t at = end; at > from && pages > kNothing; --at) {
    const std::size_t step = (at - 1) % in_.size();
    const double taken = std::min(pages, InPages(step));
    in_[step] -= taken * link_.in_s;
    if (!both_.empty()) both_[step] -= taken * link_.both_s;
    pages -= taken;
  }
}

}  // namespace sluice::core
