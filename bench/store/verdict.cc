#include "bench/store/verdict.h"

#include <algorithm>
#include <iterator>

#include "bench/store/load.h"
#include "bench/store/statistics.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

bool IsJudgedCase(const Row& row) {
  return row.ratio.has_value() && row.name != kMeanName && !IsBesideStore(row.name);
}

double MeanOf(const std::vector<Row>& rows, std::optional<double> Row::*field) {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back((row.*field).value_or(0));
  return GeometricMean(values);
}

}  // namespace

Row MakeMeanRow(const std::vector<Row>& rows) {
  std::vector<double> ratios;
  for (const Row& row : rows) ratios.push_back(row.ratio.value_or(0));
  const bool huge =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.huge_pages; });
  const bool cpu = std::all_of(
      rows.begin(), rows.end(), [](const Row& row) { return row.cpu_ratio.value_or(0) > 0; });
  Row mean{.name = kMeanName,
           .value = GeometricMean(ratios),
           .unit = "ratio",
           .reps = static_cast<int>(rows.size()),
           .spread = Spread(ratios),
           .huge_pages = huge,
           .ceiling = 1,
           .ceiling_of = rows.front().ceiling_of,
           .control_low = MeanOf(rows, &Row::control_low)};
  mean.ratio = mean.value;
  if (cpu) mean.cpu_ratio = MeanOf(rows, &Row::cpu_ratio);
  return mean;
}

std::string ClosingSentence(std::span<const Row> rows) {
  std::vector<Row> judged;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(judged), IsJudgedCase);
  if (judged.empty()) return {};
  const auto least = std::min_element(
      judged.begin(), judged.end(), [](const Row& a, const Row& b) { return *a.ratio < *b.ratio; });
  // That of the cases which count, where any did.
  const auto mean =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.name == kMeanName; });
  const auto cases = mean != rows.end() ? mean->reps : static_cast<int>(judged.size());
  return fmt::format(
      "the page store reaches {:.2f} of {} in the geometric mean of {} case{}; least of all is {} "
      "with {:.2f}, where a second run of {} over its first has a lower quartile of {:.2f}",
      mean != rows.end() ? mean->value : MeanOf(judged, &Row::ratio),
      least->ceiling_of,
      cases,
      cases == 1 ? "" : "s",
      least->name,
      *least->ratio,
      least->ceiling_of,
      least->control_low.value_or(0));
}

}  // namespace sluice::bench
