#pragma once

#include <cstdint>
#include <string_view>

/// Insistence of a program on a feature that not every machine has:
///
///   sluice::RuntimeOptions options;
///   options.memory.huge_pages = sluice::Use::kAuto;  // the default: a fallback is announced
///   options.io.direct = sluice::Use::kRequire;   // Create fails instead of buffered I/O
///   options.io.io_uring = sluice::Use::kOff;     // threads, as a comparison
///   auto runtime = sluice::Runtime::Create(options);
///
/// TOML has the same words: io.direct = "require", io.io_uring = "off".

namespace sluice {

/// Use of a feature that not every machine has.
enum class Use : std::uint8_t {
  kAuto,     ///< used where it works; a fallback is announced (FallbackEvent)
  kRequire,  ///< error in place of a fallback: FailedPrecondition unless the field names another
  kOff,      ///< no attempt, for tests and comparisons
};
/// "auto", "require", "off".
std::string_view ToString(Use use);

/// The reason of a fallback that kOff chose.
inline constexpr std::string_view kOffByOption = "off by option";

}  // namespace sluice
