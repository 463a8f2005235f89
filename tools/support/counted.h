#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace sluice::tools {

/// "1 file", "2 files".
inline std::string Counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace sluice::tools
