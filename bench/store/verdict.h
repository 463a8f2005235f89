#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/store/row.h"

namespace sluice::bench {

/// The row "all/geomean": the geometric mean of the ratios of `rows`, `reps` is their number.
/// REQUIRES: judged rows, at least one.
Row MakeMeanRow(const std::vector<Row>& rows);

/// One sentence that says how close to the ceiling it was, and where it was least close; empty when
/// no row was judged.
std::string ClosingSentence(std::span<const Row> rows);

}  // namespace sluice::bench
