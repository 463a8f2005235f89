#include "python/binding/stats.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace sluice::python {
namespace {

namespace nb = nanobind;

nb::dict DictOf(const LatencyStats& latency) {
  nb::dict dict;
  dict["count"] = latency.count;
  dict["p50_us"] = latency.p50_us;
  dict["p99_us"] = latency.p99_us;
  dict["max_us"] = latency.max_us;
  return dict;
}

nb::dict DictOf(const DirectionStats& direction) {
  nb::dict dict;
  dict["bytes"] = direction.bytes;
  dict["copies"] = direction.copies;
  dict["failed"] = direction.failed;
  dict["busy_seconds"] = direction.busy_seconds;
  dict["queue_depth"] = direction.queue_depth;
  dict["queue_depth_max"] = direction.queue_depth_max;
  dict["latency"] = DictOf(direction.latency);
  return dict;
}

nb::dict DictOf(const LinkStats& link) {
  nb::dict dict;
  dict["in"] = DictOf(link.in);
  dict["out"] = DictOf(link.out);
  return dict;
}

nb::dict DictOf(const TierStats& tier) {
  nb::dict by_kind;
  for (int kind = 0; kind < kTensorKindCount; ++kind) {
    by_kind[nb::cast(std::string(ToString(static_cast<TensorKind>(kind))))] =
        tier.by_kind.at(static_cast<std::size_t>(kind));
  }
  nb::dict dict;
  dict["budget_bytes"] = tier.budget_bytes;
  dict["used_bytes"] = tier.used_bytes;
  dict["peak_bytes"] = tier.peak_bytes;
  dict["committed_bytes"] = tier.committed_bytes;
  dict["transit_bytes"] = tier.transit_bytes;
  dict["by_kind"] = by_kind;
  dict["huge_page_share"] = tier.huge_page_share;
  dict["arena_bytes"] = tier.arena_bytes;
  nb::dict mappings;
  mappings["first"] = tier.mappings.first;
  mappings["again"] = tier.mappings.again;
  mappings["in_place"] = tier.mappings.in_place;
  dict["mappings"] = mappings;
  return dict;
}

nb::dict DictOf(const PrefetchStats& prefetch) {
  nb::dict dict;
  dict["issued"] = prefetch.issued;
  dict["hit"] = prefetch.hit;
  dict["late"] = prefetch.late;
  dict["revoked"] = prefetch.revoked;
  dict["wasted"] = prefetch.wasted;
  dict["waiting"] = prefetch.waiting;
  return dict;
}

nb::dict DictOf(const EvictionStats& evictions) {
  nb::dict dict;
  dict["dropped_clean"] = evictions.dropped_clean;
  dict["dropped_dead"] = evictions.dropped_dead;
  dict["written_demand"] = evictions.written_demand;
  dict["written_ahead"] = evictions.written_ahead;
  dict["cleaned"] = evictions.cleaned;
  return dict;
}

nb::dict DictOf(const DriveStats& drive) {
  nb::dict dict;
  dict["directory"] = drive.directory;
  dict["reads"] = drive.reads;
  dict["writes"] = drive.writes;
  dict["places"] = drive.places;
  dict["retired"] = drive.retired;
  dict["bytes_per_second"] = drive.bytes_per_second;
  dict["bytes_per_second_at_start"] = drive.bytes_per_second_at_start;
  dict["fenced"] = drive.fenced;
  return dict;
}

nb::dict DictOf(const IoStats& io) {
  nb::list drives;
  for (const DriveStats& drive : io.drives) drives.append(DictOf(drive));
  nb::dict dict;
  dict["engine"] = io.engine;
  dict["direct"] = io.direct;
  dict["nocow"] = io.nocow;
  dict["reserved_space"] = io.reserved_space;
  dict["short_io"] = io.short_io;
  dict["retries"] = io.retries;
  dict["checksum_failures"] = io.checksum_failures;
  dict["merged"] = io.merged;
  dict["features"] = io.features;
  dict["registered_bytes"] = io.registered_bytes;
  dict["registered_reason"] = io.registered_reason;
  dict["retired"] = io.retired;
  dict["drives"] = drives;
  return dict;
}

nb::list ListOf(const std::vector<FallbackEvent>& fallbacks) {
  nb::list list;
  for (const FallbackEvent& fallback : fallbacks) {
    nb::dict dict;
    dict["what"] = fallback.what;
    dict["reason"] = fallback.reason;
    dict["chosen"] = fallback.chosen;
    list.append(dict);
  }
  return list;
}

template <typename Map>
nb::dict DictOfMap(const Map& map) {
  nb::dict dict;
  for (const auto& [name, value] : map) dict[nb::cast(name)] = DictOf(value);
  return dict;
}

std::string ModeText(AccessMode mode) {
  switch (mode) {
    case AccessMode::kRead:
      return "r";
    case AccessMode::kReadWrite:
      return "rw";
    case AccessMode::kOverwrite:
      return "w";
  }
  return "unknown";
}

nb::list ListOf(const std::vector<ScheduleAccess>& accesses) {
  nb::list list;
  for (const ScheduleAccess& access : accesses) {
    nb::dict dict;
    dict["tensor"] = access.tensor;
    dict["offset"] = access.range.offset;
    dict["bytes"] = access.range.bytes;
    dict["mode"] = ModeText(access.mode);
    dict["tier"] = ToString(access.tier);
    list.append(dict);
  }
  return list;
}

nb::dict DictOf(const ScheduleTensor& tensor) {
  nb::dict dict;
  dict["name"] = tensor.name;
  dict["kind"] = std::string(ToString(tensor.kind));
  dict["bytes"] = tensor.bytes;
  return dict;
}

nb::dict DictOf(const ScheduleOp& op) {
  nb::dict dict;
  dict["name"] = op.name;
  dict["lane"] = op.lane;
  dict["seconds"] = op.seconds;
  dict["accesses"] = ListOf(op.accesses);
  dict["discards"] = ListOf(op.discards);
  return dict;
}

}  // namespace

nb::dict DictOf(const Stats& stats) {
  nb::dict plans;
  plans["made"] = stats.plans.made;
  plans["seconds"] = stats.plans.seconds;
  nb::dict dict;
  dict["links"] = DictOfMap(stats.links);
  dict["tiers"] = DictOfMap(stats.tiers);
  dict["prefetch"] = DictOf(stats.prefetch);
  dict["evictions"] = DictOf(stats.evictions);
  dict["plans"] = plans;
  dict["io"] = DictOf(stats.io);
  dict["fallbacks"] = ListOf(stats.fallbacks);
  dict["stall_seconds"] = stats.stall_seconds;
  dict["stall_read_seconds"] = stats.stall_read_seconds;
  dict["stall_write_seconds"] = stats.stall_write_seconds;
  dict["live_bytes"] = stats.live_bytes;
  dict["live_bytes_peak"] = stats.live_bytes_peak;
  dict["padding_bytes"] = stats.padding_bytes;
  dict["schedule_divergences"] = stats.schedule_divergences;
  dict["schedules_dropped"] = stats.schedules_dropped;
  dict["iterations_too_long"] = stats.iterations_too_long;
  dict["pages_lost"] = stats.pages_lost;
  return dict;
}

nb::dict DictOf(const HealthReport& health) {
  const auto name = [](HealthState state) {
    switch (state) {
      case HealthState::kOk:
        return "ok";
      case HealthState::kDegraded:
        return "degraded";
      case HealthState::kDead:
        return "dead";
    }
    return "unknown";
  };
  nb::dict dict;
  dict["state"] = name(health.state);
  dict["reasons"] = health.reasons;
  return dict;
}

nb::dict DictOf(const Schedule& schedule) {
  nb::list tensors;
  for (const ScheduleTensor& tensor : schedule.tensors) tensors.append(DictOf(tensor));
  nb::list ops;
  for (const ScheduleOp& op : schedule.ops) ops.append(DictOf(op));
  nb::dict dict;
  dict["key"] = schedule.key;
  dict["page_bytes"] = schedule.page_bytes;
  dict["tensors"] = tensors;
  dict["ops"] = ops;
  return dict;
}

nb::dict DictOf(const OptimizerStep& step) {
  nb::dict dict;
  dict["step"] = step.step;
  dict["groups"] = step.groups;
  dict["gradient_norm"] = step.gradient_norm ? nb::cast(*step.gradient_norm) : nb::none();
  dict["wait_seconds"] = step.wait_seconds;
  dict["wait_read_seconds"] = step.wait_read_seconds;
  dict["wait_write_seconds"] = step.wait_write_seconds;
  dict["compute_seconds"] = step.compute_seconds;
  return dict;
}

}  // namespace sluice::python
