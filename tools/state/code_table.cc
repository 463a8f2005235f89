#include "tools/state/code_table.h"

#include <bit>
#include <cstddef>

namespace sluice::tools {
namespace {

/// The value of a code without its sign.
template <optim::Sign kSign>
float Magnitude(unsigned code) {
  const std::size_t level = code == 0 ? 0 : static_cast<std::size_t>(std::bit_width(code)) - 1;
  const optim::LevelLines& lines = optim::kValueLines<kSign>;
  return lines.slopes[level] * static_cast<float>(code) + lines.offsets[level];
}

}  // namespace

CodeTable CodeTableOf(optim::Sign sign) {
  CodeTable table{};
  for (unsigned code = 0; code < table.size(); ++code) {
    if (sign == optim::Sign::kUnsigned) {
      table[code] = Magnitude<optim::Sign::kUnsigned>(code);
      continue;
    }
    const float magnitude = Magnitude<optim::Sign::kSigned>(code & 0x7f);
    table[code] = code < 128 ? magnitude : -magnitude;
  }
  return table;
}

}  // namespace sluice::tools
