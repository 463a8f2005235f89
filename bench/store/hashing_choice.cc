#include "bench/store/hashing_choice.h"

#include <algorithm>

#include "base/status.h"

namespace sluice::bench {

std::uint32_t FewHashing(const Case& which) {
  constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;
  constexpr std::uint64_t kPagesMin = 2;
  if (which.direction == Direction::kWrite) return 0;
  return static_cast<std::uint32_t>(std::max(kPagesMin, kBytes / which.page_bytes));
}

std::uint32_t ManyHashing(const Case& which) {
  constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  constexpr std::uint64_t kPagesMin = 8;
  return static_cast<std::uint32_t>(std::max(kPagesMin, kBytes / which.page_bytes));
}

bool MayHashMany(const Case& which) { return which.direction == Direction::kRead; }

absl::StatusOr<std::uint32_t> ChooseHashing(
    const Case& which, absl::FunctionRef<absl::StatusOr<double>(std::uint32_t hashing)> rate) {
  const std::uint32_t few = FewHashing(which);
  const std::uint32_t many = ManyHashing(which);
  double more = 0;  // of the rates with many
  for (const std::uint32_t hashing : {few, many, many, few, few, many, many, few}) {
    SLUICE_ASSIGN_OR_RETURN(const double reached, rate(hashing));
    more += hashing == many ? reached : -reached;
  }
  return more > 0 ? many : few;
}

}  // namespace sluice::bench
