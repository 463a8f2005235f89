#include "bench/store/checksum_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "base/status.h"
#include "bench/store/crc32c.h"
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

std::string ChosenName(std::uint64_t page_bytes) { return "checksum/" + SizeName(page_bytes); }
std::string Crc32cName(std::uint64_t page_bytes) {
  return "checksum-crc32c/" + SizeName(page_bytes);
}

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

double TimeCrc32c(const PageBuffers& pages) {
  return TimePasses(pages, [](std::span<const std::byte> data) { return Crc32c(data); });
}

/// The best of as many tries of each side, in turn: what others take of the machine meanwhile hits
/// all.
struct Times {
  double read = std::numeric_limits<double>::max();
  double chosen = std::numeric_limits<double>::max();
  double crc32c = std::numeric_limits<double>::max();
};

Times TimeAll(const PageBuffers& pages) {
  Times best;
  for (const ReadPass& pass : ReadPasses()) {
    best.read = std::min(best.read, TimePasses(pages, pass.sum));
    best.chosen = std::min(best.chosen, TimeChecksum(pages));
    if (HasCrc32c()) best.crc32c = std::min(best.crc32c, TimeCrc32c(pages));
  }
  return best;
}

/// The rates and costs of one way to sum up pages.
struct Samples {
  std::vector<double> rates;
  std::vector<double> costs;

  void Add(double seconds, double read_seconds, double bytes) {
    rates.push_back(bytes / seconds / (1 << 30));
    costs.push_back(seconds / read_seconds);
  }
  Row ToRow(std::string name, bool huge_pages) const {
    return Row{.name = std::move(name),
               .value = Median(rates),
               .unit = "GiB/s",
               .reps = static_cast<int>(rates.size()),
               .spread = Spread(rates),
               .huge_pages = huge_pages,
               .cost_ratio = Median(costs)};
  }
};

absl::Status MeasureSize(const ChecksumCostOptions& options,
                         std::uint64_t page_bytes,
                         const RowFn& add_row) {
  const auto count = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(options.working_set_bytes / page_bytes, 1));
  SLUICE_ASSIGN_OR_RETURN(const auto pages, PageBuffers::Create(count, page_bytes, Pages::kHuge));
  const auto bytes = static_cast<double>(count * page_bytes);
  Samples chosen;
  Samples crc32c;
  for (int rep = 0; rep < options.reps; ++rep) {
    const Times times = TimeAll(*pages);
    chosen.Add(times.chosen, times.read, bytes);
    crc32c.Add(times.crc32c, times.read, bytes);
  }
  const bool huge = pages->huge();
  if (MatchesPattern(options.pattern, ChosenName(page_bytes))) {
    add_row(chosen.ToRow(ChosenName(page_bytes), huge));
  }
  if (HasCrc32c() && MatchesPattern(options.pattern, Crc32cName(page_bytes))) {
    add_row(crc32c.ToRow(Crc32cName(page_bytes), huge));
  }
  return absl::OkStatus();
}

bool IsWanted(const ChecksumCostOptions& options, std::uint64_t page_bytes) {
  return MatchesPattern(options.pattern, ChosenName(page_bytes)) ||
         MatchesPattern(options.pattern, Crc32cName(page_bytes));
}

}  // namespace

std::vector<std::string> ChecksumRowNames() {
  std::vector<std::string> names;
  for (const std::uint64_t page_bytes : kPageBytes) {
    names.push_back(ChosenName(page_bytes));
    names.push_back(Crc32cName(page_bytes));
  }
  return names;
}

absl::Status MeasureChecksumCost(const ChecksumCostOptions& options, const RowFn& add_row) {
  for (const std::uint64_t page_bytes : kPageBytes) {
    if (!IsWanted(options, page_bytes)) continue;
    if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
    SLUICE_RETURN_IF_ERROR(MeasureSize(options, page_bytes, add_row));
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench
