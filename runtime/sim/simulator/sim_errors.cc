#include "runtime/sim/simulator/sim_errors.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::sim {
namespace {

std::string_view NameOf(const Machine& machine, std::size_t tier) {
  return ToString(machine.tiers[tier].kind);
}

/// Pages that an op needs at once.
struct OpNeed {
  std::uint64_t pages = 0;
  const PagedOp* op = nullptr;
};

/// The largest need of a tier: `failed`, or that of any other op of the schedule.
OpNeed LargestNeed(const PageLayout& layout, core::TierIndex tier, OpNeed failed) {
  for (const PagedOp& op : layout.ops) {
    const auto pages = static_cast<std::uint64_t>(
        std::count_if(op.requests.begin(), op.requests.end(), [&](const core::PageRequest& each) {
          return each.tier == tier;
        }));
    if (pages > failed.pages) failed = {pages, &op};
  }
  return failed;
}

}  // namespace

absl::Status CheckMachine(const Machine& machine,
                          const core::CoreOptions& core,
                          std::uint64_t page_bytes) {
  const std::size_t tiers = machine.tiers.size();
  if (tiers < 2 || tiers > core::kTiersMax || machine.links.size() + 1 != tiers) {
    return absl::InvalidArgumentError(
        fmt::format("a machine has 2 to {} tiers, and a link between each two", core::kTiersMax));
  }
  for (std::size_t i = 0; i < tiers; ++i) {
    const bool middle = i > 0 && i + 1 < core.tiers.size();
    const std::uint64_t least = middle ? 2 * core.transit_frames + 1 : 1;
    if (core.tiers[i].frames >= least) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} has room for {} pages of {}, and nothing moves with less than {}: give it "
                    "{}, or make pages smaller",
                    NameOf(machine, i),
                    core.tiers[i].frames,
                    ToString(Bytes(page_bytes)),
                    least,
                    ToString(Bytes(least * page_bytes))));
  }
  return absl::OkStatus();
}

absl::Status OpTooLarge(const Machine& machine,
                        const PageLayout& layout,
                        const core::FailTicket& failure,
                        std::uint32_t op) {
  const OpNeed need = LargestNeed(layout, failure.tier, {failure.pages, &layout.ops[op]});
  const std::uint64_t more = need.pages - failure.limit;
  return absl::InvalidArgumentError(
      fmt::format("{} needs {} pages of {} at once in {}, where an op can have {}: give {} {} more",
                  Describe(*need.op),
                  need.pages,
                  ToString(Bytes(layout.page_bytes)),
                  NameOf(machine, failure.tier),
                  failure.limit,
                  NameOf(machine, failure.tier),
                  ToString(Bytes(more * layout.page_bytes))));
}

absl::Status TooMuchAlive(const Machine& machine, const PageLayout& layout, const Crowd& crowd) {
  const std::string who = crowd.op == nullptr
                              ? "what persists needs "
                              : Describe(*crowd.op) + " makes what lives at once need ";
  const bool lowest = machine.tiers.back().kind == TierKind::kNvme;
  return absl::ResourceExhaustedError(
      fmt::format("{}{} pages of {} in {}, which has room for {}: give it {} more{}",
                  who,
                  crowd.pages,
                  ToString(Bytes(layout.page_bytes)),
                  NameOf(machine, machine.tiers.size() - 1),
                  crowd.room,
                  ToString(Bytes((crowd.pages - crowd.room) * layout.page_bytes)),
                  lowest ? "" : ", or name a tier below it"));
}

}  // namespace sluice::sim
