#include "tools/train/link_bounds.h"

#include <algorithm>

namespace sluice::tools {
namespace {

std::uint64_t WholePages(Bytes bytes, Bytes page) {
  return bytes.count() / page.count() * page.count();
}

}  // namespace

LinkBounds ComputeLinkBounds(const Schedule& schedule, const RuntimeOptions& options) {
  const std::uint64_t hbm = WholePages(options.hbm_bytes, options.page_bytes);
  const std::uint64_t dram = WholePages(options.dram_bytes, options.page_bytes);
  LinkBounds bounds;
  bounds[kDeviceLink].bytes =
      core::ComputeLinkBound(schedule, {.lowest_above = TierKind::kHbm, .bytes_above = hbm});
  bounds[kDiskLink].bytes = core::ComputeLinkBound(
      schedule, {.lowest_above = TierKind::kDram, .bytes_above = hbm + dram});
  return bounds;
}

double BoundSeconds(const core::BoundBytes& bytes, const LinkRates& rates) {
  return std::max({bytes.in_bytes / rates.in,
                   bytes.out_bytes / rates.out,
                   (bytes.in_bytes + bytes.out_bytes) / rates.both});
}

double RateForSeconds(const core::BoundBytes& bytes, double seconds) {
  return std::max(bytes.in_bytes, bytes.out_bytes) / seconds;
}

}  // namespace sluice::tools
