#include "tools/train/report/link_bounds.h"

#include <algorithm>

#include "runtime/analysis/bounds/time_bound.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::tools {
namespace {

std::uint64_t WholePages(Bytes bytes, Bytes page) {
  return bytes.count() / page.count() * page.count();
}

/// Puts the model's ops into one lane, where they run one after another. The optimizer's ops keep
/// their own lane, and take no time.
void PutInTwoLanes(double compute_seconds_max, Schedule* schedule) {
  double sum = 0;
  for (const ScheduleOp& op : schedule->ops) {
    if (op.lane != gpt::kUpdateLane) sum += op.seconds;
  }
  const double scale = sum > compute_seconds_max ? compute_seconds_max / sum : 1;
  for (ScheduleOp& op : schedule->ops) {
    const bool updates = op.lane == gpt::kUpdateLane;
    op.seconds = updates ? 0 : op.seconds * scale;
    if (!updates) op.lane = "train";
  }
}

}  // namespace

std::vector<std::string> LinksOf(const RuntimeOptions& options) {
  if (options.nvme_bytes == Bytes()) return {kDeviceLink};
  return {kDeviceLink, kDiskLink};
}

LinkBounds ComputeLinkBounds(const Schedule& schedule, const RuntimeOptions& options) {
  const std::uint64_t hbm = WholePages(options.hbm_bytes, options.page_bytes);
  const std::uint64_t dram = WholePages(options.dram_bytes, options.page_bytes);
  LinkBounds bounds;
  bounds[kDeviceLink].bytes =
      analysis::ComputeLinkBound(schedule, {.lowest_above = TierKind::kHbm, .bytes_above = hbm});
  if (options.nvme_bytes == Bytes()) return bounds;
  bounds[kDiskLink].bytes = analysis::ComputeLinkBound(
      schedule, {.lowest_above = TierKind::kDram, .bytes_above = hbm + dram});
  return bounds;
}

double BoundSeconds(const analysis::BoundBytes& bytes, const LinkRates& rates) {
  return std::max({bytes.in_bytes / rates.in,
                   bytes.out_bytes / rates.out,
                   (bytes.in_bytes + bytes.out_bytes) / rates.both});
}

double ScheduleBoundSeconds(Schedule schedule,
                            const RuntimeOptions& options,
                            const std::map<std::string, LinkRates>& rates,
                            double compute_seconds_max) {
  PutInTwoLanes(compute_seconds_max, &schedule);
  analysis::TimeBoundOptions bound{
      .tiers = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme},
      .tier_bytes = {WholePages(options.hbm_bytes, options.page_bytes),
                     WholePages(options.dram_bytes, options.page_bytes),
                     options.nvme_bytes.count()}};
  if (options.nvme_bytes == Bytes()) {
    bound.tiers.pop_back();
    bound.tier_bytes.pop_back();
  }
  for (const std::string& link : LinksOf(options)) {
    const LinkRates& rate = rates.at(link);
    bound.links.push_back(
        {.in_bytes_per_s = rate.in, .out_bytes_per_s = rate.out, .both_bytes_per_s = rate.both});
  }
  return analysis::ComputeTimeBound(schedule, bound).bound_s;
}

double RateForSeconds(const analysis::BoundBytes& bytes, double seconds) {
  return std::max(bytes.in_bytes, bytes.out_bytes) / seconds;
}

}  // namespace sluice::tools
