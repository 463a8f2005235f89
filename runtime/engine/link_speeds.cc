#include "runtime/engine/link_speeds.h"

namespace sluice::engine {

LinkSpeeds::LinkSpeeds(const LinkMeters& meters, std::size_t links, std::uint64_t page_bytes)
    : meters_(meters), page_bytes_(page_bytes), links_(links) {}

void LinkSpeeds::Look() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto link = static_cast<core::TierIndex>(i);
    Look(meters_.Of(link, core::Direction::kIn).Read(), &links_[i][0]);
    Look(meters_.Of(link, core::Direction::kOut).Read(), &links_[i][1]);
  }
}

void LinkSpeeds::Look(const DirectionStats& stats, Direction* direction) const {
  const std::uint64_t bytes = stats.bytes - direction->bytes;
  const double busy_s = stats.busy_seconds - direction->busy_s;
  if (bytes < kPagesToTell * page_bytes_ || busy_s <= 0) return;
  const double page_s = busy_s * static_cast<double>(page_bytes_) / static_cast<double>(bytes);
  direction->page_s = direction->page_s > 0 ? (direction->page_s + page_s) / 2 : page_s;
  direction->bytes = stats.bytes;
  direction->busy_s = stats.busy_seconds;
}

std::vector<core::PlanLink> LinkSpeeds::links() const {
  const double no_hindrance_s = static_cast<double>(page_bytes_) / kNoHindranceBytesPerSecond;
  std::vector<core::PlanLink> links;
  for (const auto& [in, out] : links_) {
    const double in_s = in.page_s > 0 ? in.page_s : out.page_s;
    const double out_s = out.page_s > 0 ? out.page_s : in.page_s;
    const bool known = in_s > 0;
    links.push_back(
        {.in_s = known ? in_s : no_hindrance_s, .out_s = known ? out_s : no_hindrance_s});
  }
  return links;
}

}  // namespace sluice::engine
