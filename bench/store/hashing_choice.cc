#include "bench/store/hashing_choice.h"

#include <algorithm>

#include "base/status.h"

namespace sluice::bench {

std::uint32_t FewHashing(std::uint64_t page_bytes) {
  constexpr std::uint64_t kPagesMin = 2;
  return static_cast<std::uint32_t>(std::max(kPagesMin, (std::uint64_t{2} << 20) / page_bytes));
}

std::uint32_t ManyHashing(std::uint64_t page_bytes) {
  constexpr std::uint64_t kPagesMin = 8;
  return static_cast<std::uint32_t>(std::max(kPagesMin, (std::uint64_t{16} << 20) / page_bytes));
}

bool MayHashMany(const Case& which) { return which.direction == Direction::kRead; }

absl::StatusOr<std::uint32_t> ChooseHashing(
    std::uint64_t page_bytes,
    absl::FunctionRef<absl::StatusOr<double>(std::uint32_t hashing)> rate) {
  const std::uint32_t few = FewHashing(page_bytes);
  const std::uint32_t many = ManyHashing(page_bytes);
  double more = 0;  // of the rates with many
  for (const std::uint32_t hashing : {few, many, many, few, few, many, many, few}) {
    SLUICE_ASSIGN_OR_RETURN(const double reached, rate(hashing));
    more += hashing == many ? reached : -reached;
  }
  return more > 0 ? many : few;
}

}  // namespace sluice::bench
