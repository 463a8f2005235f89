#include "bench/store/store_bench.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/judged_case.h"
#include "bench/store/session.h"
#include "fmt/format.h"
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

}  // namespace

absl::Status RunStoreBench(const StoreBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckPattern(options.pattern));
  SLUICE_RETURN_IF_ERROR(CheckSize(options));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<StoreSession> session,
                          StoreSession::Create(options));
  std::vector<Row> for_mean;
  for (const Case& which : SelectedCases(options.pattern)) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Row> rows, RunJudgedCase(*session, which));
    for (const Row& row : rows) add_row(row);
    if (CountsForMean(which)) for_mean.push_back(rows.front());
  }
  if (!for_mean.empty()) add_row(MakeMeanRow(for_mean));
  return absl::OkStatus();
}

}  // namespace sluice::bench
