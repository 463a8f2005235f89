#pragma once

#include <optional>
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

struct JudgedResult {
  Row row;
  /// What else ran in the same rounds: on io_uring "plain-loop/..." of random 2 MiB, on threads
  /// "fio-threads/...".
  std::vector<Row> beside;
};

/// Rounds of ceiling, ours, ceiling. `minutes_end`: no round but the first three begins later, as
/// of session.minutes(). Errors: those of RunStoreBench.
absl::StatusOr<JudgedResult> RunJudgedCase(const Session& session,
                                           const Case& which,
                                           double minutes_end);

}  // namespace sluice::bench
