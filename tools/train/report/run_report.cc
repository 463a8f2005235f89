#include "tools/train/report/run_report.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/format.h"
#include "sluice/tier.h"
#include "tools/support/median.h"

namespace sluice::tools {
namespace {

/// Sums one figure over the judged steps.
template <typename Figure>
double SumJudged(const RunReport& report, const Figure& figure) {
  double sum = 0;
  for (const StepRecord& step : report.steps) {
    if (step.judged) sum += figure(step);
  }
  return sum;
}

/// Seconds of the judged steps; with `key`, of those of that key.
std::vector<double> JudgedSeconds(const RunReport& report, const std::optional<std::string>& key) {
  std::vector<double> seconds;
  for (const StepRecord& step : report.steps) {
    if (step.judged && (!key.has_value() || step.key == *key)) seconds.push_back(step.seconds);
  }
  return seconds;
}

double WallSeconds(const RunReport& report) {
  return SumJudged(report, [](const StepRecord& step) { return step.seconds; });
}

double StallSeconds(const RunReport& report) {
  return SumJudged(report, [](const StepRecord& step) { return step.stall_seconds; });
}

/// The link with the largest bound; end when there is none.
LinkBounds::const_iterator TightestLink(const LinkBounds& bounds) {
  return std::max_element(bounds.begin(), bounds.end(), [](const auto& a, const auto& b) {
    return a.second.seconds < b.second.seconds;
  });
}

/// A link that is busy for more of the step than this leaves no room for anything else.
constexpr double kLinkShareBinding = 0.8;

int Rank(const std::string& tier) {
  constexpr std::array kTiers = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme};
  const auto found = std::find_if(
      kTiers.begin(), kTiers.end(), [&](TierKind kind) { return ToString(kind) == tier; });
  return static_cast<int>(found - kTiers.begin());
}

}  // namespace

bool FasterTier::operator()(const std::string& a, const std::string& b) const {
  return std::pair(Rank(a), a) < std::pair(Rank(b), b);
}

std::string MainKey(const RunReport& report) {
  const bool none_judged = std::none_of(
      report.steps.begin(), report.steps.end(), [](const StepRecord& step) { return step.judged; });
  std::map<std::pair<gpt::StepKind, std::string>, int> counts;
  for (const StepRecord& step : report.steps) {
    if (step.judged || none_judged) ++counts[{step.kind, step.key}];
  }
  const auto weight = [](const auto& count) {
    return count.second * (count.first.first == gpt::StepKind::kUsual ? 2 : 1);
  };
  const auto most =
      std::max_element(counts.begin(), counts.end(), [&](const auto& a, const auto& b) {
        return weight(a) < weight(b);
      });
  return most == counts.end() ? std::string(gpt::kTrainKeys[0]) : most->first.second;
}

double StepSecondsMedian(const RunReport& report) {
  return Median(JudgedSeconds(report, std::nullopt));
}

double StallFraction(const RunReport& report) {
  const double wall = WallSeconds(report);
  return wall > 0 ? StallSeconds(report) / wall : 0;
}

LinkBytes BytesPerStep(const RunReport& report, const std::string& link) {
  LinkBytes bytes;
  std::uint64_t steps = 0;
  for (const StepRecord& step : report.steps) {
    const auto found = step.links.find(link);
    if (!step.judged || found == step.links.end()) continue;
    bytes.in += found->second.in;
    bytes.out += found->second.out;
    ++steps;
  }
  return steps == 0 ? LinkBytes() : LinkBytes{bytes.in / steps, bytes.out / steps};
}

double VolumeBoundSeconds(const RunReport& report) {
  const auto tightest = TightestLink(report.bounds);
  return tightest == report.bounds.end() ? 0 : tightest->second.seconds;
}

std::optional<double> TimeOverBound(const RunReport& report) {
  const double seconds = Median(JudgedSeconds(report, MainKey(report)));
  if (!(seconds > 0 && report.bound_seconds > 0)) return std::nullopt;
  return seconds / report.bound_seconds;
}

std::string WhatBinds(const RunReport& report) {
  const double waiting = StallFraction(report);
  const double compute = 1 - waiting;
  const auto tightest = TightestLink(report.bounds);
  const bool bounded = tightest != report.bounds.end();
  const double step = StepSecondsMedian(report);
  const double link = bounded && step > 0 ? tightest->second.seconds / step : 0;
  if (link > kLinkShareBinding && link > compute) {
    return fmt::format(
        "bound by {}: what must cross it takes {:.0f} % of the step", tightest->first, 100 * link);
  }
  if (compute >= waiting) {
    return fmt::format("bound by compute; waiting for pages costs {:.0f} % of the step",
                       100 * waiting);
  }
  const std::string though =
      bounded ? fmt::format(", though {} needs only {:.0f} % of it", tightest->first, 100 * link)
              : std::string();
  return fmt::format("bound by waiting: {:.0f} % of the step is stalls{}", 100 * waiting, though);
}

}  // namespace sluice::tools
