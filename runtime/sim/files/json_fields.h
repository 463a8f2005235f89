#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/sim/files/json_line.h"

namespace sluice::sim {

/// Largest number of bytes in a field: 2^60.
inline constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 60;
/// Longest time of an op, in seconds.
inline constexpr double kSecondsMax = 1e9;

/// Values of one line. Errors: InvalidArgument that names the field, its value and the valid ones.
absl::StatusOr<std::uint64_t> ToWhole(const Json& value, std::string_view what, std::uint64_t max);
absl::StatusOr<double> ToSeconds(const Json& value, std::string_view what);
absl::StatusOr<std::string> ToText(const Json& value, std::string_view what, std::uint64_t max);
absl::Status CheckArray(const Json& value, std::string_view what);

/// A field that must be there.
absl::StatusOr<const Json*> Require(const Json& line, const char* field);

/// The field, or null when it is absent.
const Json* Find(const Json& line, const char* field);

}  // namespace sluice::sim
