#include "bench/store/checksum_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>

#include "base/status.h"
#include "bench/store/load.h"
#include "bench/store/page_buffers.h"
#include "bench/store/statistics.h"
#include "io/checksum.h"

namespace sluice::bench {
namespace {

constexpr std::array<std::uint64_t, 4> kPageBytes = {std::uint64_t{256} << 10,
                                                     std::uint64_t{1} << 20,
                                                     std::uint64_t{2} << 20,
                                                     std::uint64_t{8} << 20};

std::string RowName(std::uint64_t page_bytes) { return "checksum/" + SizeName(page_bytes); }

/// Seconds that `sum` takes for every page in turn.
template <typename Sum>
double TimePasses(const PageBuffers& pages, const Sum& sum) {
  using Clock = std::chrono::steady_clock;
  volatile std::uint64_t sink = 0;
  const Clock::time_point start = Clock::now();
  for (std::uint32_t page = 0; page < pages.count(); ++page) sink = sink + sum(pages[page]);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double TimeChecksum(const PageBuffers& pages) {
  return TimePasses(pages, [](std::span<const std::byte> data) {
    return io::PageChecksum({.segment = 1, .page = 2, .generation = 3}, data);
  });
}

/// The best of as many tries of each side, in turn: what others take of the machine meanwhile hits
/// both.
struct Times {
  double read = std::numeric_limits<double>::max();
  double checksum = std::numeric_limits<double>::max();
};

Times TimeBoth(const PageBuffers& pages) {
  Times best;
  for (const ReadPass& pass : ReadPasses()) {
    best.read = std::min(best.read, TimePasses(pages, pass.sum));
    best.checksum = std::min(best.checksum, TimeChecksum(pages));
  }
  return best;
}

absl::StatusOr<Row> MeasureSize(const ChecksumCostOptions& options, std::uint64_t page_bytes) {
  const auto count = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(options.working_set_bytes / page_bytes, 1));
  SLUICE_ASSIGN_OR_RETURN(const auto pages, PageBuffers::Create(count, page_bytes, Pages::kHuge));
  std::vector<double> rates;
  std::vector<double> costs;
  for (int rep = 0; rep < options.reps; ++rep) {
    const Times times = TimeBoth(*pages);
    rates.push_back(static_cast<double>(count * page_bytes) / times.checksum / (1 << 30));
    costs.push_back(times.checksum / times.read);
  }
  return Row{.name = RowName(page_bytes),
             .value = Median(rates),
             .unit = "GiB/s",
             .reps = options.reps,
             .spread = Spread(rates),
             .huge_pages = pages->huge(),
             .cost_ratio = Median(costs)};
}

}  // namespace

std::vector<std::string> ChecksumRowNames() {
  std::vector<std::string> names;
  for (const std::uint64_t page_bytes : kPageBytes) names.push_back(RowName(page_bytes));
  return names;
}

absl::Status MeasureChecksumCost(const ChecksumCostOptions& options, const RowFn& add_row) {
  for (const std::uint64_t page_bytes : kPageBytes) {
    if (!MatchesPattern(options.pattern, RowName(page_bytes))) continue;
    if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
    SLUICE_ASSIGN_OR_RETURN(const Row row, MeasureSize(options, page_bytes));
    add_row(row);
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench
