#include "sluice/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 5> kUnits = {{{"TiB", std::uint64_t{1} << 40},
                                         {"GiB", std::uint64_t{1} << 30},
                                         {"MiB", std::uint64_t{1} << 20},
                                         {"KiB", std::uint64_t{1} << 10},
                                         {"B", 1}}};

/// 2^63: doubles below it convert to std::uint64_t without loss of range.
constexpr double kBytesMax = 9223372036854775808.0;

absl::Status NotASize(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a size; write a number with B, KiB, MiB, GiB or TiB, for "
                  "example 256MiB",
                  text));
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::uint64_t UnitBytes(std::string_view name) {
  if (name.empty()) return 1;
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return unit.bytes;
  }
  return 0;
}

/// "1.50" without its trailing zeros: "1.5".
std::string TwoDecimals(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

absl::StatusOr<Bytes> FromFraction(std::string_view text, double number, std::uint64_t unit) {
  const double bytes = number * static_cast<double>(unit);
  if (!(bytes >= 0) || bytes >= kBytesMax) return NotASize(text);
  return Bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

}  // namespace

std::string ToString(Bytes bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes.count() < unit.bytes) continue;
    if (bytes.count() % unit.bytes == 0) {
      return fmt::format("{} {}", bytes.count() / unit.bytes, unit.name);
    }
    const double value = static_cast<double>(bytes.count()) / static_cast<double>(unit.bytes);
    return fmt::format("{} {}", TwoDecimals(value), unit.name);
  }
  return "0 B";
}

absl::StatusOr<Bytes> ParseBytes(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const char* const end = trimmed.data() + trimmed.size();
  // Whole numbers go through integers, so that every count up to 2^64 - 1 is exact.
  std::uint64_t whole = 0;
  const auto [whole_end, whole_error] = std::from_chars(trimmed.data(), end, whole);
  if (whole_error != std::errc()) return NotASize(text);
  if (whole_end == end || *whole_end != '.') {
    const std::uint64_t unit = UnitBytes(Trim({whole_end, end}));
    if (unit == 0 || whole > UINT64_MAX / unit) return NotASize(text);
    return Bytes(whole * unit);
  }
  double number = 0;
  const auto [number_end, number_error] =
      std::from_chars(trimmed.data(), end, number, std::chars_format::fixed);
  const std::uint64_t unit = UnitBytes(Trim({number_end, end}));
  if (number_error != std::errc() || unit == 0) return NotASize(text);
  return FromFraction(text, number, unit);
}

}  // namespace sluice
