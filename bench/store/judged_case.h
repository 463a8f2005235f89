#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/store/row.h"
#include "bench/store/session.h"

namespace sluice::bench {

/// Rates of one round, GiB/s: the ceiling, the candidate, the ceiling again.
struct Round {
  double first = 0;
  double ours = 0;
  double second = 0;

  double Ceiling() const { return (first + second) / 2; }
  double Ratio() const { return Ceiling() > 0 ? ours / Ceiling() : 0; }
  double Control() const { return first > 0 ? second / first : 0; }
};

/// The fields that follow from the rounds: value to control_low.
Row MakeJudgedRow(const std::string& name, const std::vector<Round>& rounds);

/// Rows of one case, the judged one first. The rounds are ceiling, ours, ceiling. At random 2 MiB
/// on io_uring a plain loop runs in each round too; two peers follow (RowNamesOf). Errors: those of
/// RunStoreBench.
absl::StatusOr<std::vector<Row>> RunJudgedCase(const StoreSession& session, const Case& which);

/// The row "all/geomean": the geometric mean of the ratios of `rows`, `reps` is their number.
/// REQUIRES: judged rows, at least one.
Row MakeMeanRow(const std::vector<Row>& rows);

}  // namespace sluice::bench
