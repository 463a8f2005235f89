#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::tools {

/// Number of columns of a line of text that people read.
inline constexpr std::size_t kColumns = 80;

/// The parts with `separator` between them, on lines of at most kColumns columns. A line that goes
/// on begins with `indent` spaces. A part that is longer than a line stays whole.
std::string Wrap(std::span<const std::string> parts,
                 std::string_view separator,
                 std::size_t indent);

/// The text, each line that is too long broken between words. Spaces within a line stay, and a
/// number stays with its unit.
std::string WrapLines(std::string_view text, std::size_t indent);

}  // namespace sluice::tools
