#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/support/arguments.h"

namespace sluice::tools {

/// The whole numbers that a flag takes.
struct NumberRange {
  int least = 0;
  int most = 0;
};

/// The number that `text`, a value of `flag`, stands for. Errors: InvalidArgument that names the
/// flag, the text and the range.
absl::StatusOr<int> ParseNumber(const std::string& flag,
                                const std::string& text,
                                NumberRange range);

/// Reads a flag that is a number into `number`, which stays as it is without the flag. `Integer`
/// holds every number of the range. Errors: those of ParseNumber.
template <typename Integer>
absl::Status ReadNumber(const Arguments& arguments,
                        const std::string& flag,
                        NumberRange range,
                        Integer* number) {
  if (!arguments.Has(flag)) return absl::OkStatus();
  const absl::StatusOr<int> read = ParseNumber(flag, arguments.Value(flag), range);
  if (read.ok()) *number = static_cast<Integer>(*read);
  return read.status();
}

/// Reads a flag that is a size, as "256MiB", into `bytes`, which stay as they are without the flag.
/// Errors: InvalidArgument that names the flag and the text.
absl::Status ReadBytes(const Arguments& arguments, const std::string& flag, std::uint64_t* bytes);

}  // namespace sluice::tools
