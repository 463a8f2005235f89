#pragma once

#include <string>
#include <string_view>

namespace sluice::sim {

/// What a file says, for a message: in quotes, cut after 60 bytes, and without anything that could
/// act on a terminal.
std::string Quoted(std::string_view text);

/// The same without quotes.
std::string Printable(std::string_view text);

}  // namespace sluice::sim
