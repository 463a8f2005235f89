#include "tools/train/state/save_interval.h"

#include <array>
#include <charconv>
#include <utility>

#include "fmt/format.h"

namespace sluice::tools {
namespace {

constexpr char kAllowedIntervals[] =
    "allowed are a whole number, a space, and \"steps\", \"s\", \"min\" or \"h\", as in \"10 "
    "steps\" or \"5 min\"";
constexpr int kIntervalMax = 1'000'000'000;
constexpr std::array<std::pair<std::string_view, int>, 3> kSecondsOf = {
    {{"s", 1}, {"min", 60}, {"h", 3600}}};

absl::Status BadInterval(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("\"train.save_every\" is \"{}\": {}; {}", text, why, kAllowedIntervals));
}

}  // namespace

absl::StatusOr<SaveInterval> ParseSaveInterval(std::string_view text) {
  if (text.empty()) return SaveInterval();
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range || number > kIntervalMax) {
    return BadInterval(text, fmt::format("the number is above {}", kIntervalMax));
  }
  if (error != std::errc()) return BadInterval(text, "it begins with no number");
  if (number < 1) return BadInterval(text, "the number must be at least 1");
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit == " steps" || unit == " step") return SaveInterval{.steps = number};
  for (const auto& [name, seconds] : kSecondsOf) {
    if (unit.starts_with(' ') && unit.substr(1) == name) {
      return SaveInterval{.time = std::chrono::seconds(std::int64_t{number} * seconds)};
    }
  }
  return BadInterval(text, unit.empty() ? "it has no unit" : "its unit is not known");
}

bool SaveClock::Due(int step, Time now) const {
  if (interval_.none()) return false;
  return interval_.steps > 0 ? step % interval_.steps == 0 : now - last_ >= interval_.time;
}

}  // namespace sluice::tools
