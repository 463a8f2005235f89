#include "bench/store/store_bench.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/judged_case.h"
#include "bench/store/peers.h"
#include "bench/store/session.h"
#include "bench/store/verdict.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

/// What the peers take of the time, in minutes; they come last.
constexpr double kMinutesAfter = 0.5;

absl::Status CheckPattern(const std::string& pattern) {
  std::vector<std::string> names = PeerRowNames();
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

absl::Status RunJudgedCases(const Session& session, const RowFn& add_row) {
  const std::vector<Case> cases = SelectedCases(session.options().pattern);
  const double minutes = session.options().minutes_max - kMinutesAfter;
  const bool fio = session.fio_has_huge_pages();
  int runs = 0;  // in a round of each case that is left
  for (const Case& which : cases) runs += RunsInRound(which, fio);
  std::vector<Row> for_mean;
  for (const Case& which : cases) {
    // As many rounds for each of what is left, so that a slow disk costs every case some.
    const double share = static_cast<double>(RunsInRound(which, fio)) / runs;
    const double end = session.minutes() + (minutes - session.minutes()) * share;
    runs -= RunsInRound(which, fio);
    SLUICE_ASSIGN_OR_RETURN(const JudgedResult result, RunJudgedCase(session, which, end));
    add_row(result.row);
    for (const Row& row : result.beside) add_row(row);
    if (CountsForMean(which)) for_mean.push_back(result.row);
  }
  if (!for_mean.empty()) add_row(MakeMeanRow(for_mean));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStoreBench(const StoreBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckPattern(options.pattern));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(options));
  SLUICE_RETURN_IF_ERROR(RunJudgedCases(*session, add_row));
  return MeasurePeers(*session, add_row);
}

}  // namespace sluice::bench
