// Sizes and tier names of any bytes: what is accepted means the same after it was printed.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sluice/tier.h"
#include "sluice/units.h"

namespace {

/// ToString keeps two decimals, so a size comes back within half of a hundredth of its unit.
void CheckBytes(std::string_view text) {
  const absl::StatusOr<sluice::Bytes> bytes = sluice::ParseBytes(text);
  if (!bytes.ok() || bytes->count() > (1ULL << 50)) return;
  const absl::StatusOr<sluice::Bytes> again = sluice::ParseBytes(sluice::ToString(*bytes));
  SLUICE_CHECK(again.ok(), "a printed size can be parsed");
  const std::uint64_t low = again->count() - again->count() / 100;
  const std::uint64_t high = again->count() + again->count() / 100;
  SLUICE_CHECK(low <= bytes->count() && bytes->count() <= high, "a printed size is near");
}

void CheckTier(std::string_view text) {
  const absl::StatusOr<sluice::TierId> tier = sluice::ParseTierId(text);
  if (!tier.ok()) return;
  SLUICE_CHECK(sluice::ParseTierId(sluice::ToString(*tier)) == tier, "tier names round-trip");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckBytes(text);
  CheckTier(text);
  return 0;
}
