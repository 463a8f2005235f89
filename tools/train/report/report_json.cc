#include <cmath>
#include <utility>

#include "nlohmann/json.hpp"
#include "tools/train/report/run_report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

Json LinksJson(const RunReport& report) {
  Json links = Json::object();
  for (const auto& [name, total] : report.links) {
    const LinkBytes step = BytesPerStep(report, name);
    links[name] = {{"in_bytes", total.in},
                   {"out_bytes", total.out},
                   {"in_bytes_per_step", step.in},
                   {"out_bytes_per_step", step.out}};
  }
  return links;
}

Json TiersJson(const RunReport& report) {
  Json tiers = Json::object();
  for (const auto& [name, tier] : report.tiers) {
    tiers[name] = {{"budget_bytes", tier.budget_bytes}, {"peak_bytes", tier.peak_bytes}};
  }
  return tiers;
}

Json BoundJson(const RunReport& report) {
  Json bound = Json::object();
  for (const auto& [name, link] : report.bounds) {
    bound[name] = {{"in_bytes", std::llround(link.bytes.in_bytes)},
                   {"out_bytes", std::llround(link.bytes.out_bytes)},
                   {"ms", link.seconds * 1e3}};
  }
  return bound;
}

Json FallbacksJson(const RunReport& report) {
  Json fallbacks = Json::array();
  for (const FallbackEvent& fallback : report.fallbacks) {
    fallbacks.push_back(
        {{"what", fallback.what}, {"reason", fallback.reason}, {"chosen", fallback.chosen}});
  }
  return fallbacks;
}

Json ComputeJson(const gpt::ComputeRate& rate) {
  return {{"library", rate.library.name},
          {"kernels", gpt::ToString(rate.library.kernels)},
          {"threads", rate.threads},
          {"gflops", rate.gflops},
          {"peak_gflops", rate.peak_gflops},
          {"peak_share", rate.PeakShare()}};
}

Json RecomputeJson(const RecomputeReport& recompute) {
  Json layers = Json::array();
  for (std::size_t layer = 0; layer < recompute.choice.size(); ++layer) {
    if (recompute.choice[layer]) layers.push_back(layer);
  }
  return {{"layers", std::move(layers)},
          {"kept", recompute.layers_kept},
          {"offloaded", recompute.layers_offloaded},
          {"recomputed", recompute.layers_recomputed},
          {"step_ms_without", recompute.seconds_without * 1e3},
          {"step_ms", recompute.seconds * 1e3}};
}

Json VerifyJson(const VerifyReport& verify) {
  return {{"identical", verify.identical},
          {"ram_step_ms_median", verify.ram_step_ms_median},
          {"slowdown", verify.slowdown},
          {"ram_gflops", verify.ram_gflops}};
}

}  // namespace

std::string FormatJson(const RunReport& report) {
  Json json;
  json["steps"] = report.steps.size();
  if (report.steps_before > 0) json["steps_before"] = report.steps_before;
  if (report.interrupted) json["interrupted"] = true;
  if (!report.steps.empty()) {
    json["loss_first"] = report.steps.front().loss;
    json["loss_last"] = report.steps.back().loss;
    json["step_ms_median"] = StepSecondsMedian(report) * 1e3;
    json["stall_fraction"] = StallFraction(report);
  }
  if (report.val_loss_first.has_value()) json["val_loss_first"] = *report.val_loss_first;
  if (report.val_loss.has_value()) json["val_loss"] = *report.val_loss;
  if (!report.bounds.empty()) {
    json["bound_key"] = MainKey(report);
    json["bound_ms"] = report.bound_seconds * 1e3;
    if (const std::optional<double> ratio = TimeOverBound(report)) json["time_over_bound"] = *ratio;
    json["volume_bound_ms"] = VolumeBoundSeconds(report) * 1e3;
    json["bound"] = BoundJson(report);
  }
  json["links"] = LinksJson(report);
  json["tiers"] = TiersJson(report);
  json["peak_rss_bytes"] = report.peak_rss_bytes;
  json["live_bytes"] = report.live_bytes;
  json["padding_bytes"] = report.padding_bytes;
  json["plans"] = {{"made", report.plans.made}, {"ms", report.plans.seconds * 1e3}};
  json["schedule_divergences"] = report.divergences;
  if (report.retired_places > 0) json["retired_places"] = report.retired_places;
  json["fallbacks"] = FallbacksJson(report);
  if (report.compute.has_value()) json["matrix_products"] = ComputeJson(*report.compute);
  if (report.recompute.has_value()) json["recompute"] = RecomputeJson(*report.recompute);
  if (report.verify.has_value()) json["verify"] = VerifyJson(*report.verify);
  return json.dump() + "\n";
}

}  // namespace sluice::tools
