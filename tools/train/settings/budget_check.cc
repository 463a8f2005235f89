#include "tools/train/settings/budget_check.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/core/core.h"
#include "runtime/engine/setup/backends.h"
#include "runtime/engine/setup/option_limits.h"
#include "workloads/gpt/training/footprint.h"

namespace sluice::tools {
namespace {

LeastBudget LeastHbm(const gpt::Footprint& footprint) {
  return {footprint.op_hbm_max,
          fmt::format("op '{}' works on all of it", footprint.op_hbm_max_name)};
}

LeastBudget LeastDram(const gpt::Footprint& footprint, Bytes page) {
  const Bytes transit = page * (2 * core::CoreOptions().transit_frames);
  const Bytes work = std::max(footprint.op_dram_max, page);
  return {work + transit,
          fmt::format("op '{}' works on {}, and {} are kept for pages in transit",
                      footprint.op_dram_max_name,
                      ToString(work),
                      ToString(transit))};
}

/// Pages of nvme that are kept for writes in flight where `pages` are to be there. A larger file
/// has more writes in flight, up to the queue's depth.
core::FrameIndex SpareOfNvme(core::FrameIndex pages, std::uint32_t queue_depth) {
  core::FrameIndex spare = 0;
  for (core::FrameIndex before = 1; before != spare;) {
    before = spare;
    spare = engine::StoreCopiesMax(queue_depth, pages + spare);
  }
  return spare;
}

/// Pages of tensors that dram can keep for good: all but those in transit and `for_others`.
std::uint64_t PagesThatDramHolds(const RuntimeOptions& options, std::uint64_t for_others) {
  const std::uint64_t frames = options.dram_bytes.count() / options.page_bytes.count();
  const std::uint64_t kept = 2 * core::CoreOptions().transit_frames + for_others;
  return frames - std::min(frames, kept);
}

/// Pages of dram that pages of nvme need beside those that stay there.
std::uint64_t PagesForOthers(const gpt::Footprint& footprint, const RuntimeOptions& options) {
  const std::uint64_t page = options.page_bytes.count();
  const std::uint64_t eighth = options.dram_bytes.count() / page / 8;
  return std::max({std::uint64_t{1}, eighth, footprint.op_dram_max.count() / page});
}

/// Budget that nvme needs for the tensors that dram does not hold; 0 where dram holds all.
LeastBudget LeastNvme(const gpt::Footprint& footprint, const RuntimeOptions& options) {
  const Bytes page = options.page_bytes;
  const Bytes tensors = footprint.tensors + footprint.padding;
  const std::uint64_t pages = tensors.count() / page.count();
  const bool nvme = options.nvme_bytes > Bytes();
  if (!nvme && pages <= PagesThatDramHolds(options, 0)) return {};
  const std::uint64_t above = PagesThatDramHolds(options, PagesForOthers(footprint, options));
  if (pages <= above) return {};
  const auto below = static_cast<core::FrameIndex>(pages - above);
  const core::FrameIndex spare = SpareOfNvme(below, options.io.queue_depth);
  return {page * (below + spare),
          fmt::format("all tensors take {}, of which dram has room for {}, and {} are kept for "
                      "writes in flight; or raise tiers.dram.bytes",
                      ToString(tensors),
                      ToString(page * above),
                      ToString(page * spare))};
}

/// Text for a budget below the least one, in whole pages; empty if the budget will do.
std::string Shortage(std::string_view tier, Bytes budget, Bytes page, const LeastBudget& least) {
  if (budget.count() / page.count() >= least.bytes.count() / page.count()) return {};
  return fmt::format("; tiers.{}.bytes is {}, at least {} are needed: {}",
                     tier,
                     ToString(budget),
                     engine::ExactSize(least.bytes),
                     least.reason);
}

}  // namespace

absl::StatusOr<LeastBudgets> FindLeastBudgets(const TrainSettings& settings) {
  const RuntimeOptions& options = settings.runtime;
  SLUICE_ASSIGN_OR_RETURN(
      const gpt::Footprint footprint,
      gpt::MeasureFootprint(settings.model, settings.train, options.page_bytes));
  return LeastBudgets{.hbm = LeastHbm(footprint),
                      .dram = LeastDram(footprint, options.page_bytes),
                      .nvme = LeastNvme(footprint, options)};
}

absl::Status CheckBudgets(const TrainSettings& settings) {
  SLUICE_ASSIGN_OR_RETURN(const LeastBudgets least, FindLeastBudgets(settings));
  const RuntimeOptions& options = settings.runtime;
  const Bytes page = options.page_bytes;
  const std::string shortages = Shortage("hbm", options.hbm_bytes, page, least.hbm) +
                                Shortage("dram", options.dram_bytes, page, least.dram) +
                                Shortage("nvme", options.nvme_bytes, page, least.nvme);
  if (shortages.empty()) return engine::CountFrames(options).status();
  return absl::ResourceExhaustedError("the model does not fit into its budgets" + shortages);
}

}  // namespace sluice::tools
