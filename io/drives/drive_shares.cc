#include "io/drives/drive_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace sluice::io {
namespace {

constexpr SlotIndex kShareOfSpares = 512;

/// Drives whose parts are as large as their rates, and those that have `least` instead.
struct Division {
  std::span<const double> rates;
  SlotIndex slots;
  SlotIndex least;
  std::vector<bool> raised;

  SlotIndex ToDivide() const {
    const auto count = static_cast<SlotIndex>(std::count(raised.begin(), raised.end(), true));
    return slots - std::min(slots, count * least);
  }
  double RateOfTheOthers() const {
    double sum = 0;
    for (std::size_t i = 0; i < rates.size(); ++i) sum += raised[i] ? 0 : rates[i];
    return sum;
  }
};

/// Raises those whose parts would be too small; true when there was one, as the others have less
/// then.
bool RaiseOnce(Division* division) {
  const double slots_per_rate = division->ToDivide() / division->RateOfTheOthers();
  bool any = false;
  for (std::size_t i = 0; i < division->rates.size(); ++i) {
    if (division->raised[i] || division->rates[i] * slots_per_rate >= division->least) continue;
    division->raised[i] = any = true;
  }
  return any;
}

/// What is rounded off of one is the next one's.
std::vector<SlotIndex> Round(const Division& division) {
  std::vector<SlotIndex> shares;
  const double slots_per_rate = division.ToDivide() / division.RateOfTheOthers();
  double rates = 0;
  SlotIndex given = 0;
  for (std::size_t i = 0; i < division.rates.size(); ++i) {
    if (division.raised[i]) {
      shares.push_back(division.least);
      continue;
    }
    rates += division.rates[i];
    const auto until = static_cast<SlotIndex>(std::llround(rates * slots_per_rate));
    shares.push_back(until - given);
    given = until;
  }
  return shares;
}

}  // namespace

std::vector<SlotIndex> DivideSlots(SlotIndex slots, std::span<const double> rates) {
  for (const double rate : rates) SLUICE_CHECK(rate > 0, "the rate of a drive is above 0");
  const auto tenths = static_cast<SlotIndex>(10 * rates.size());
  Division division{.rates = rates,
                    .slots = slots,
                    .least = std::max<SlotIndex>(1, slots / tenths),
                    .raised = std::vector<bool>(rates.size())};
  while (RaiseOnce(&division)) {
  }
  return Round(division);
}

SlotIndex SpareSlots(SlotIndex share) { return std::max<SlotIndex>(1, share / kShareOfSpares); }

}  // namespace sluice::io
