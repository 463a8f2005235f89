#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

/// Debian's absl::string_view is a type of its own; these are the only conversions.

namespace sluice::base {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

/// The candidate that `name` is the beginning of, else the one with the smallest edit distance to
/// it; empty when none is near.
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

/// End of a message about an unknown name: "; did you mean "NAME"?", or nothing. NAME is our name
/// for a common one (names/common_names.h), else the nearest.
std::string DidYouMean(std::string_view name, std::span<const std::string> candidates);

/// "1 page", "2 pages".
std::string Counted(std::uint64_t count, std::string_view noun);

/// One word of a shell's command line, in quotes where it needs them.
std::string ShellWord(std::string_view text);

}  // namespace sluice::base
