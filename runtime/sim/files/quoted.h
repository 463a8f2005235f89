#pragma once

#include <string>
#include <string_view>

namespace sluice::sim {

/// Text of a file, for a message: in quotes, cut after 60 bytes, and without characters that could
/// act on a terminal.
std::string Quoted(std::string_view text);

/// Text of a file as Quoted has it, without quotes.
std::string Printable(std::string_view text);

}  // namespace sluice::sim
