#include <utility>

#include "fmt/format.h"
#include "runtime/engine/api/runtime_state.h"

namespace sluice::internal {
namespace {

PrefetchStats PrefetchOf(const core::CoreCounters& counters) {
  return {.issued = counters.prefetch_issued,
          .hit = counters.prefetch_hit,
          .late = counters.prefetch_late,
          .revoked = counters.prefetch_revoked,
          .wasted = counters.prefetch_wasted,
          .waiting = counters.prefetch_waiting};
}

EvictionStats EvictionsOf(const core::CoreCounters& counters) {
  return {.dropped_clean = counters.dropped_clean,
          .dropped_dead = counters.dropped_dead,
          .written_demand = counters.written_demand,
          .written_ahead = counters.written_ahead,
          .cleaned = counters.cleaned};
}

IoStats IoOf(const io::PageStore* store) {
  if (store == nullptr) return {};
  const io::PageStoreStats stats = store->stats();
  return {.engine = stats.engine,
          .direct = stats.direct,
          .nocow = stats.nocow,
          .reserved_space = stats.reserved_space,
          .short_io = stats.short_io,
          .retries = stats.retries,
          .checksum_failures = stats.checksum_failures,
          .merged = stats.merged,
          .features = stats.engine_features,
          .registered_bytes = stats.registered_bytes,
          .registered_reason = stats.registered_reason,
          .retired = stats.retired,
          .drives = stats.drives};
}

}  // namespace

engine::CoreSnapshot RuntimeState::Snapshot() const {
  std::promise<engine::CoreSnapshot> reply;
  auto snapshot = reply.get_future();
  engine::CallRequest request{[&] { reply.set_value(core_thread_->Snapshot()); }};
  return mailbox_->Push(std::move(request)) ? snapshot.get() : engine::CoreSnapshot{};
}

TierStats RuntimeState::StatsOf(core::TierIndex tier, const core::TierCounters& counters) const {
  const std::uint64_t page_bytes = tiers_->page_bytes();
  TierStats stats;
  stats.budget_bytes = counters.frames * page_bytes;
  stats.used_bytes = counters.used * page_bytes;
  stats.peak_bytes = counters.used_peak * page_bytes;
  stats.committed_bytes = counters.committed * page_bytes;
  stats.transit_bytes = counters.transit * page_bytes;
  for (std::size_t kind = 0; kind < stats.by_kind.size(); ++kind) {
    stats.by_kind[kind] = counters.by_kind[kind] * page_bytes;
  }
  stats.mappings = {.first = counters.mappings.first,
                    .again = counters.mappings.again,
                    .in_place = counters.mappings.in_place};
  if (const engine::MemoryTier* memory = tiers_->memory(tier)) {
    stats.huge_page_share = memory->huge_page_share();
    stats.arena_bytes = memory->allocated_bytes();
  }
  return stats;
}

Stats RuntimeState::GetStats() const {
  Stats stats;
  const engine::CoreSnapshot core = Snapshot();
  for (core::TierIndex tier = 0; tier < core.tiers.size(); ++tier) {
    if (!tiers_->exists(tier)) continue;
    stats.tiers[std::string(ToString(tiers_->id(tier).kind))] = StatsOf(tier, core.tiers[tier]);
  }
  for (core::TierIndex link = 0; link + 1 < tiers_->size(); ++link) {
    if (!tiers_->exists(link + 1)) continue;
    stats.links[tiers_->LinkName(link)] =
        LinkStats{.in = meters_.Of(link, core::LinkDirection::kIn).Read(),
                  .out = meters_.Of(link, core::LinkDirection::kOut).Read()};
  }
  stats.prefetch = PrefetchOf(core.counters);
  stats.evictions = EvictionsOf(core.counters);
  stats.plans = core.plans;
  stats.io = IoOf(tiers_->store());
  stats.fallbacks = health_.fallbacks();
  const WaitTimes stalls = waits_->times();
  stats.stall_seconds = stalls.seconds();
  stats.stall_read_seconds = stalls.read_seconds;
  stats.stall_write_seconds = stalls.write_seconds;
  const engine::LiveBytes live = table_.live_bytes();
  stats.live_bytes = live.live;
  stats.live_bytes_peak = live.peak;
  stats.padding_bytes = live.padding;
  stats.schedule_divergences = core.counters.divergences;
  stats.schedules_dropped = core.counters.schedules_dropped;
  stats.iterations_too_long = core.counters.iterations_too_long;
  stats.pages_lost = core.counters.pages_lost;
  return stats;
}

std::vector<std::vector<int>> RuntimeState::DramNodes() const {
  const std::optional<core::TierIndex> dram = tiers_->IndexOf(kDram0);
  return dram.has_value() ? tiers_->memory(*dram)->Nodes() : std::vector<std::vector<int>>(1);
}

absl::StatusOr<Schedule> RuntimeState::RecordedSchedule(std::string_view key) const {
  return recorder_.Get(key);
}

}  // namespace sluice::internal
