#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/lab/run/machine_flags.h"
#include "tools/lab/run/run_report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

Json UseOf(const sim::PathUse& use, double time_s) {
  return {{"in_bytes", use.in_bytes},
          {"out_bytes", use.out_bytes},
          {"busy_in", Share(use.busy_in_s, time_s)},
          {"busy_out", Share(use.busy_out_s, time_s)}};
}

Json Links(const RunSetting& setting, const sim::SimReport& sim) {
  Json links = Json::object();
  for (std::size_t i = 0; i < sim.links.size(); ++i) {
    Json& link = links[LinkName(setting.machine, i)];
    link = UseOf(sim.links[i], sim.time_s);
    if (sim.links[i].paths.size() < 2) continue;
    for (const sim::PathUse& path : sim.links[i].paths) {
      link["paths"].push_back(UseOf(path, sim.time_s));
    }
  }
  return links;
}

Json Tiers(const RunSetting& setting, const sim::SimReport& sim) {
  Json tiers = Json::object();
  for (std::size_t i = 0; i < sim.tiers.size(); ++i) {
    const sim::MachineTier& tier = setting.machine.tiers[i];
    Json object = Json::object();
    if (tier.bytes != sim::MachineTier::kUnlimited) object["budget_bytes"] = tier.bytes;
    object["peak_bytes"] = sim.tiers[i].peak_bytes;
    const core::MappingCounters& mappings = sim.tiers[i].mappings;
    if (mappings.again > 0) {
      object["pages_back"] = mappings.again;
      object["pages_back_in_place"] = mappings.in_place;
    }
    tiers[std::string(ToString(tier.kind))] = object;
  }
  return tiers;
}

Json Bounds(const RunSetting& setting) {
  const RunBound& bound = setting.bound;
  Json bounds = {{"compute", bound.compute_s}, {"window", bound.moves.window_s}};
  for (std::size_t i = 0; i < bound.moves.links.size(); ++i) {
    const analysis::LinkTimeBound& link = bound.moves.links[i];
    bounds[LinkName(setting.machine, i)] = {{"volume", link.volume_s},
                                            {"window", link.window_s},
                                            {"in_bytes", std::llround(link.bytes.in_bytes)},
                                            {"out_bytes", std::llround(link.bytes.out_bytes)}};
  }
  return bounds;
}

void AddRecompute(const RecomputeUse& use, Json* object) {
  Json recompute = {{"taken", use.taken}};
  const auto add = [&](const std::string& name, const RecomputeUse::Part& part) {
    recompute[name] = part.tensors;
    recompute[name + "_bytes"] = part.bytes;
  };
  add("kept", use.kept);
  add("offloaded", use.offloaded);
  add("recomputed", use.recomputed);
  recompute["recompute_s"] = use.recompute_s;
  (*object)["recompute"] = recompute;
}

void AddBound(const RunSetting& setting, double time_s, Json* object) {
  const RunBound& bound = setting.bound;
  (*object)["bound_s"] = bound.bound_s;
  if (bound.bound_s > 0) (*object)["time_over_bound"] = time_s / bound.bound_s;
  (*object)["binds"] = BindsName(setting.machine, bound);
  (*object)["bounds"] = Bounds(setting);
  Json savings = Json::object();
  for (const RunBound::Saving& saving : bound.savings) savings[saving.name] = saving.share;
  (*object)["savings"] = savings;
}

}  // namespace

std::string ToJsonLine(const RunSetting& setting, const PolicyRun& report) {
  const sim::SimReport& sim = report.sim;
  Json object = {{"policy", report.policy},
                 {"schedule", setting.schedule.name},
                 {"page_bytes", setting.page_bytes},
                 {"time_s", sim.time_s},
                 {"compute_s", sim.compute_s},
                 {"stall_s", sim.stall_s},
                 {"op_stall_s",
                  {{"p50", Quantile(sim.op_stall_s, 0.5)},
                   {"p99", Quantile(sim.op_stall_s, 0.99)},
                   {"max", Quantile(sim.op_stall_s, 1)}}}};
  if (const auto change = LastChange(sim)) object["last_change"] = *change;
  if (sim.compute_s > 0) object["time_over_compute"] = sim.time_s / sim.compute_s;
  if (setting.recompute.has_value()) AddRecompute(*setting.recompute, &object);
  AddBound(setting, sim.time_s, &object);
  if (!setting.schedule.key.empty()) object["key"] = setting.schedule.key;
  object["links"] = Links(setting, sim);
  if (setting.machine.tiers.back().kind == TierKind::kNvme) {
    object["nvme_written_bytes"] = sim.links.back().out_bytes;
  }
  object["tiers"] = Tiers(setting, sim);
  object["page_events"] = sim.page_events;
  if (sim.plan_s > 0) object["plan_s"] = sim.plan_s;
  object["sim_s"] = report.wall_s;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::tools
