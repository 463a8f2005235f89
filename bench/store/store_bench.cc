#include "bench/store/store_bench.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/judged_case.h"
#include "bench/store/session.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sluice/units.h"

namespace sluice::bench {
namespace {

absl::Status CheckPattern(const std::string& pattern) {
  std::vector<std::string> names;
  for (const Case& which : JudgedCases()) {
    for (std::string& name : RowNamesOf(which)) names.push_back(std::move(name));
  }
  for (const std::string& name : names) {
    if (MatchesPattern(pattern, name)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("\"{}\" matches no case{}; cases have names like {}",
                               pattern,
                               base::DidYouMean(pattern, names),
                               CaseName(JudgedCases().front()))));
}

/// A row that is asked for and needs larger files: four pages for each request in the kernel.
absl::Status CheckSize(const StoreBenchOptions& options) {
  for (const Case& which : SelectedCases(options.pattern)) {
    const std::uint64_t least = 4 * DepthOf(which) * which.page_bytes;
    if (options.file_bytes >= least) continue;
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("--size: {} are too little for {}: it takes at least {}",
                                 ToString(Bytes(options.file_bytes)),
                                 CaseName(which),
                                 ToString(Bytes(least)))));
  }
  return absl::OkStatus();
}

/// The names of the rows that miss their bar, or "none".
std::string BelowBar(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (row.bar.has_value() && row.ratio.value_or(0) < *row.bar) names.push_back(row.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

absl::Status RunStoreBench(const StoreBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckPattern(options.pattern));
  SLUICE_RETURN_IF_ERROR(CheckSize(options));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(options));
  std::vector<Row> for_mean;
  for (const Case& which : SelectedCases(options.pattern)) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Row> rows, RunJudgedCase(*session, which));
    for (const Row& row : rows) add_row(row);
    if (CountsForMean(which)) for_mean.push_back(rows.front());
  }
  if (!for_mean.empty()) add_row(MakeMeanRow(for_mean));
  return absl::OkStatus();
}

std::string StoreSentence(std::span<const Row> rows) {
  const auto mean =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.name == kMeanName; });
  if (mean == rows.end()) return {};
  return fmt::format(
      "the page store reaches {:.2f} of {} in the geometric mean of {} case{}; below their bars: "
      "{}",
      mean->value,
      mean->ceiling_of,
      mean->reps,
      mean->reps == 1 ? "" : "s",
      BelowBar(rows));
}

}  // namespace sluice::bench
