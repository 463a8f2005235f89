// A configuration of any ASCII bytes is read or refused with a message; it never crashes.
// ASCII only: toml++ 3.3 runs into a __builtin_unreachable() when it asks whether one of U+00A1 to
// U+0499 outside a string is white space.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/config.h"
#include "sluice/options.h"

namespace {

void ExpectMessage(const absl::Status& status) {
  if (!status.ok() && status.message().empty()) std::abort();
}

/// The first line is an override ("key=value"), the rest the file.
void ReadAll(std::string_view input) {
  const std::size_t line_end = input.find('\n');
  const std::string_view assignment = input.substr(0, line_end);
  const std::string_view toml =
      line_end == std::string_view::npos ? std::string_view() : input.substr(line_end + 1);
  absl::StatusOr<sluice::Config> config = sluice::Config::Parse(toml, "input.toml");
  ExpectMessage(config.status());
  if (!config.ok()) return;
  ExpectMessage(config->Set(assignment));
  ExpectMessage(sluice::ReadRuntimeOptions(*config).status());
  ExpectMessage(config->Finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (std::any_of(data, data + size, [](std::uint8_t byte) { return byte >= 0x80; })) return 0;
  ReadAll({reinterpret_cast<const char*>(data), size});
  return 0;
}
