// Everything that GetStats counts, after a loop over more than fits: what crossed each link, what
// lies in each tier, which pages came ahead of need, why pages left, and what the disk did.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr int kLayers = 8, kRounds = 4;
constexpr std::int64_t kElements = 1 << 19;  // 2 MiB each

/// Reads and changes each layer in turn.
void Train(sluice::Runtime& runtime) {
  std::vector<sluice::TensorId> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(Check(runtime.CreateTensor({.name = "layer " + std::to_string(i),
                                                 .shape = {kElements},
                                                 .kind = sluice::TensorKind::kParameter})));
  }
  for (int round = 0; round < kRounds; ++round) {
    Check(runtime.BeginIteration("round"));
    for (const sluice::TensorId layer : layers) {
      sluice::Op op = runtime.BeginOp({.name = "add one"});
      const sluice::Lease lease =
          Check(op.Acquire({.tensor = layer, .mode = sluice::AccessMode::kReadWrite}));
      for (float& value : lease.As<float>()) value += 1;
    }
  }
  Check(runtime.EndIteration());
}

std::string Text(std::uint64_t bytes) { return sluice::ToString(sluice::Bytes(bytes)); }

void Print(const std::string& link, const char* direction, const sluice::DirectionStats& stats) {
  std::printf(
      "%s %s: %s in %ju copies, %ju failed, busy for %.3f s, p50 %.0f us, p99 %.0f us, "
      "%u at once\n",
      link.c_str(),
      direction,
      Text(stats.bytes).c_str(),
      std::uintmax_t{stats.copies},
      std::uintmax_t{stats.failed},
      stats.busy_seconds,
      stats.latency.p50_us,
      stats.latency.p99_us,
      stats.queue_depth_max);
}

void Print(const std::string& tier, const sluice::TierStats& stats) {
  const auto parameters = static_cast<std::size_t>(sluice::TensorKind::kParameter);
  std::printf("%s: budget %s, used %s (parameters %s), at most %s, committed %s, in transit %s\n",
              tier.c_str(),
              Text(stats.budget_bytes).c_str(),
              Text(stats.used_bytes).c_str(),
              Text(stats.by_kind[parameters]).c_str(),
              Text(stats.peak_bytes).c_str(),
              Text(stats.committed_bytes).c_str(),
              Text(stats.transit_bytes).c_str());
  std::printf("%s: %.0f %% on huge pages of %s; %ju pages mapped first, %ju again, %ju in place\n",
              tier.c_str(),
              100 * stats.huge_page_share,
              Text(stats.arena_bytes).c_str(),
              std::uintmax_t{stats.mappings.first},
              std::uintmax_t{stats.mappings.again},
              std::uintmax_t{stats.mappings.in_place});
}

void Print(const sluice::PrefetchStats& prefetch, const sluice::EvictionStats& evictions) {
  std::printf("ahead of need: %ju pages; %ju in time, %ju late, %ju revoked, %ju wasted\n",
              std::uintmax_t{prefetch.issued},
              std::uintmax_t{prefetch.hit},
              std::uintmax_t{prefetch.late},
              std::uintmax_t{prefetch.revoked},
              std::uintmax_t{prefetch.wasted});
  std::printf("left: %ju clean, %ju dead, %ju written on demand, %ju ahead; %ju cleaned\n",
              std::uintmax_t{evictions.dropped_clean},
              std::uintmax_t{evictions.dropped_dead},
              std::uintmax_t{evictions.written_demand},
              std::uintmax_t{evictions.written_ahead},
              std::uintmax_t{evictions.cleaned});
}

void Print(const sluice::IoStats& io) {
  std::printf("%s (%s)%s, %s of dram registered %s\n",
              io.engine.c_str(),
              io.features.c_str(),
              io.direct ? ", O_DIRECT" : "",
              Text(io.registered_bytes).c_str(),
              io.registered_reason.c_str());
  std::printf("%ju short, %ju repeated, %ju merged; %ju wrong checksums, %ju places retired\n",
              std::uintmax_t{io.short_io},
              std::uintmax_t{io.retries},
              std::uintmax_t{io.merged},
              std::uintmax_t{io.checksum_failures},
              std::uintmax_t{io.retired});
}

/// Whether the counters keep what they promise.
bool Hold(const sluice::Stats& stats) {
  bool right = stats.live_bytes <= stats.live_bytes_peak && stats.pages_lost == 0;
  for (const auto& [name, tier] : stats.tiers) {
    const auto& kinds = tier.by_kind;
    right = right && tier.peak_bytes <= tier.budget_bytes && tier.used_bytes <= tier.peak_bytes;
    right = right && std::reduce(kinds.begin(), kinds.end()) <= tier.used_bytes;
  }
  const sluice::PrefetchStats& prefetch = stats.prefetch;
  const std::uint64_t outcomes = prefetch.hit + prefetch.late + prefetch.revoked + prefetch.wasted;
  return right && outcomes > 0 && outcomes <= prefetch.issued &&
         stats.stall_read_seconds + stats.stall_write_seconds <= stats.stall_seconds + 1e-6;
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.hbm_bytes = 4_MiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 32_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  Train(*runtime);
  const sluice::Stats stats = runtime->GetStats();
  for (const auto& [name, link] : stats.links) {
    Print(name, "in", link.in);
    Print(name, "out", link.out);
  }
  for (const auto& [name, tier] : stats.tiers) Print(name, tier);
  Print(stats.prefetch, stats.evictions);
  Print(stats.io);
  std::printf("%ju plans in %.3f s; %ju divergences; waited %.3f s for reads, %.3f s for writes\n",
              std::uintmax_t{stats.plans.made},
              stats.plans.seconds,
              std::uintmax_t{stats.schedule_divergences},
              stats.stall_read_seconds,
              stats.stall_write_seconds);
  std::printf("%s live, %s at most, %s of padding\n",
              Text(stats.live_bytes).c_str(),
              Text(stats.live_bytes_peak).c_str(),
              Text(stats.padding_bytes).c_str());
  return Hold(stats) ? 0 : 1;
}
