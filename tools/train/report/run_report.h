#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/events.h"
#include "sluice/stats.h"
#include "tools/train/report/link_bounds.h"
#include "workloads/gpt/compute/compute_rate.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// Bytes that crossed a link.
struct LinkBytes {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

/// One training step, validation excluded.
struct StepRecord {
  int step = 0;  ///< number of the step, from 1
  gpt::StepKind kind = gpt::StepKind::kUsual;
  std::string key;  ///< key of its iteration
  double loss = 0;
  double seconds = 0;
  double stall_seconds = 0;
  std::map<std::string, LinkBytes> links;
  /// Whether medians count the step. They do not count steps before a link got its pace.
  bool judged = true;
};

/// Result of --verify.
struct VerifyReport {
  bool identical = false;
  double ram_step_ms_median = 0;
  double slowdown = 0;
  double ram_gflops = 0;
  /// The first difference, as a sentence; empty when there is none.
  std::string difference;
};

struct TierReport {
  std::uint64_t budget_bytes = 0;
  std::uint64_t peak_bytes = 0;
  /// Most bytes of each tensor kind at the end of a step.
  std::array<std::uint64_t, kTensorKindCount> by_kind{};
};

/// Orders hbm before dram before nvme.
struct FasterTier {
  bool operator()(const std::string& a, const std::string& b) const;
};

using TierReports = std::map<std::string, TierReport, FasterTier>;

/// Decision of `train.recompute = "planned"`. Seconds are those of a step, as reckoned from the
/// steps before.
struct RecomputeReport {
  gpt::RecomputeChoice choice;
  int layers_kept = 0;       ///< layers whose stash stays in hbm
  int layers_offloaded = 0;  ///< layers whose stash moves out and in again
  int layers_recomputed = 0;
  double compute_seconds = 0;  ///< seconds of compute without recomputing
  double seconds_without = 0;  ///< duration of the step without recomputing
  double seconds = 0;          ///< duration of the step as it was decided
  /// A link's seconds without recomputing, and as it was decided.
  std::map<std::string, std::pair<double, double>> links;
};

/// Report of a run at its end.
struct RunReport {
  std::vector<StepRecord> steps;
  int steps_wanted = 0;  ///< steps of the whole training
  int steps_before = 0;  ///< steps that were done when this run began
  /// Whether a signal ended the run before its last step, or before it was verified.
  bool interrupted = false;
  bool verify_wanted = false;
  std::optional<double> val_loss_first;
  std::optional<double> val_loss;  ///< loss of the last validation that followed a step
  std::map<std::string, LinkBytes> links;
  TierReports tiers;
  LinkBounds bounds;
  /// ScheduleBoundSeconds of the main key's ops. Each op is as fast as in its fastest of the last
  /// OpTimes::kIterationsMax judged steps. In a verified run that recomputes nothing, all ops
  /// together take no more than the fastest step in RAM.
  double bound_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t padding_bytes = 0;
  std::uint64_t retired_places = 0;  ///< places of nvme that lost a page
  std::vector<FallbackEvent> fallbacks;
  /// Rate of matrix products, measured before the first step.
  std::optional<gpt::ComputeRate> compute;
  std::optional<VerifyReport> verify;
  std::optional<RecomputeReport> recompute;
  PrefetchStats prefetch;
  PlanStats plans;
  std::uint64_t divergences = 0;  ///< number of divergences from recorded schedules
};

/// The iteration key of most judged steps. Steps of the usual kind count twice: a run that
/// validates after every third step makes as many of the others. The bounds are those of this key's
/// schedule.
std::string MainKey(const RunReport& report);
/// Median seconds of the judged steps.
double StepSecondsMedian(const RunReport& report);
double StallFraction(const RunReport& report);
/// Mean bytes of a judged step.
LinkBytes BytesPerStep(const RunReport& report, const std::string& link);
/// The largest of the links' bounds, each taken for itself.
double VolumeBoundSeconds(const RunReport& report);
/// The median of the judged steps of the main key, divided by bound_seconds. None if there are no
/// such steps, or nothing bounds them.
std::optional<double> TimeOverBound(const RunReport& report);
/// The largest part of a step, as one sentence.
std::string WhatBinds(const RunReport& report);

/// The decision and its reason, as one sentence.
std::string FormatRecompute(const RecomputeReport& recompute);
/// The report as one object of JSON, on one line, with a newline.
std::string FormatJson(const RunReport& report);
/// The report as text for people.
std::string FormatSummary(const RunReport& report);

}  // namespace sluice::tools
