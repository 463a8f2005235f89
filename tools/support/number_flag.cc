#include "tools/support/number_flag.h"

#include <charconv>
#include <system_error>

#include "base/status.h"
#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::tools {

absl::StatusOr<int> ParseNumber(const std::string& flag,
                                const std::string& text,
                                NumberRange range) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool whole = error == std::errc() && rest == end;
  if (whole && number >= range.least && number <= range.most) return number;
  return absl::InvalidArgumentError(fmt::format(
      "{}: \"{}\" is not a whole number from {} to {}", flag, text, range.least, range.most));
}

absl::Status ReadBytes(const Arguments& arguments, const std::string& flag, std::uint64_t* bytes) {
  if (!arguments.Has(flag)) return absl::OkStatus();
  const absl::StatusOr<Bytes> read = ParseBytes(arguments.Value(flag));
  if (read.ok()) *bytes = read->count();
  return base::Annotate(read.status(), flag);
}

}  // namespace sluice::tools
