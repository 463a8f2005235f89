#pragma once

#include <utility>
#include <vector>

namespace sluice::bench {

/// The value below which `share` (0 to 1) of the sorted values lie, interpolated between
/// neighbours; 0 for none.
double Quantile(std::vector<double> values, double share);
inline double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }
inline double LowerQuartile(std::vector<double> values) {
  return Quantile(std::move(values), 0.25);
}
/// (largest - smallest) / median; 0 for none.
double Spread(const std::vector<double>& values);
/// REQUIRES: positive values. 0 for none.
double GeometricMean(const std::vector<double>& values);

}  // namespace sluice::bench
