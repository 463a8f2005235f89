#include "sluice/tier.h"

#include <array>
#include <charconv>
#include <system_error>

#include "base/check.h"
#include "fmt/format.h"
#include "sluice/use.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 3> kTierNames = {"hbm", "dram", "nvme"};

absl::Status NotATier(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a tier; the kinds are hbm, dram and nvme, with an optional "
                  "index from 0 to 255, for example dram1",
                  text));
}

}  // namespace

std::string_view ToString(Use use) {
  constexpr std::array<std::string_view, 3> kNames = {"auto", "require", "off"};
  const auto index = static_cast<std::size_t>(use);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view ToString(TierKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kTierNames.size() ? kTierNames[index] : "unknown";
}

std::string ToString(TierId tier) { return fmt::format("{}{}", ToString(tier.kind), tier.index); }

absl::StatusOr<TierId> ParseTierId(std::string_view text) {
  for (std::size_t kind = 0; kind < kTierNames.size(); ++kind) {
    if (!text.starts_with(kTierNames[kind])) continue;
    const std::string_view digits = text.substr(kTierNames[kind].size());
    TierId tier{static_cast<TierKind>(kind), 0};
    if (digits.empty()) return tier;
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, tier.index);
    if (error != std::errc() || parsed != end) return NotATier(text);
    return tier;
  }
  return NotATier(text);
}

}  // namespace sluice
