#include "tools/bench/bench_count.h"

#include <charconv>
#include <string>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {

absl::Status ReadCount(const Arguments& arguments, const char* flag, std::uint32_t* count) {
  if (!arguments.Has(flag)) return absl::OkStatus();
  const std::string text = arguments.Value(flag);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::uint32_t kMost = 1'000'000;
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value == 0 || value > kMost) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("{} \"{}\" is no number from 1 to {}", flag, text, kMost)));
  }
  *count = value;
  return absl::OkStatus();
}

}  // namespace sluice::tools
