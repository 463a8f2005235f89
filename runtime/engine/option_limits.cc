#include "runtime/engine/option_limits.h"

#include <cmath>

#include "fmt/format.h"

namespace sluice::engine {
namespace {

constexpr double kSecondsMax = 1e6;

}  // namespace

absl::Status CheckSeconds(std::string_view key, double seconds) {
  if (seconds >= 0 && seconds <= kSecondsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is {}; allowed are 0 to {:.0f} seconds", key, seconds, kSecondsMax));
}

absl::Status CheckRate(std::string_view key, double bytes_per_second) {
  if (bytes_per_second == 0) return absl::OkStatus();
  if (bytes_per_second >= 1 && std::isfinite(bytes_per_second)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is {}; allowed are 0 (as fast as the host copies) and finite rates from 1 byte per "
      "second on",
      key,
      bytes_per_second));
}

}  // namespace sluice::engine
