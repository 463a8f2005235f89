#include "runtime/sim/files/json_fields.h"

#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"

namespace sluice::sim {
namespace {

/// Lists and objects by their type only, as they may be large.
std::string Describe(const Json& value) {
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return Printable(value.dump());
}

absl::Status Wrong(const Json& value, std::string_view what, std::string_view wanted) {
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be {}", what, Describe(value), wanted));
}

}  // namespace

absl::StatusOr<std::uint64_t> ToWhole(const Json& value, std::string_view what, std::uint64_t max) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    return Wrong(value, what, fmt::format("a whole number from 0 to {}", max));
  }
  return value.get<std::uint64_t>();
}

absl::StatusOr<double> ToSeconds(const Json& value, std::string_view what) {
  // The comparisons are written so that no NaN passes.
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= kSecondsMax)) {
    return Wrong(value, what, fmt::format("a number of seconds from 0 to {:g}", kSecondsMax));
  }
  return value.get<double>();
}

absl::StatusOr<std::string> ToText(const Json& value, std::string_view what, std::uint64_t max) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > max) {
    return Wrong(value, what, fmt::format("a text of at most {} bytes", max));
  }
  return value.get<std::string>();
}

absl::Status CheckArray(const Json& value, std::string_view what) {
  return value.is_array() ? absl::OkStatus() : Wrong(value, what, "a list");
}

const Json* Find(const Json& line, const char* field) {
  const auto found = line.find(field);
  return found == line.end() ? nullptr : &*found;
}

absl::StatusOr<const Json*> Require(const Json& line, const char* field) {
  if (const Json* const value = Find(line, field)) return value;
  return absl::InvalidArgumentError(fmt::format("the field \"{}\" is missing; add it", field));
}

}  // namespace sluice::sim
