#include "bench/device/device_bench.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "bench/device/leased_run.h"
#include "bench/device/plain_device.h"
#include "bench/device/plain_store.h"
#include "bench/store/load.h"
#include "bench/store/statistics.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

/// Parts that measure one page size.
struct Subject {
  const DeviceBenchOptions& options;
  std::uint64_t page_bytes = 0;
  std::string suffix;  ///< "2MiB/cuda"
  std::unique_ptr<PlainDevice> plain;
  std::unique_ptr<PlainStore> store;  ///< ceiling of pages from nvme; null without a directory
  std::unique_ptr<LeasedRun> leased;
};

/// Ceiling of the rates of a row: the copies of the device, or the load of a page store.
struct RateCase {
  std::string name;  ///< "in"
  double device::CopyRates::*copies = nullptr;
  Direction direction = Direction::kRead;
  Pattern pattern = Pattern::kRandom;
};

/// Values of each round, and the ceiling in it.
struct Samples {
  std::vector<double> values;
  std::vector<double> ceilings;
};

/// Frames of hbm in the cases of one page.
constexpr std::size_t kFrames = 32;

absl::Status CheckInterrupted(const DeviceBenchOptions& options) {
  if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

RuntimeOptions OptionsOf(const DeviceBenchOptions& options, std::uint64_t page_bytes) {
  RuntimeOptions runtime;
  runtime.device = options.device;
  runtime.cuda.gpu = options.gpu;
  runtime.page_bytes = Bytes(page_bytes);
  runtime.hbm_bytes = Bytes(options.hbm_bytes);
  // All weights, with room for copies in flight.
  runtime.dram_bytes = Bytes(options.weights_bytes + 16 * page_bytes);
  if (!options.directory.empty()) {
    runtime.io.directory = options.directory;
    runtime.dram_bytes = Bytes(std::max(options.weights_bytes / 4, 16 * page_bytes));
    runtime.nvme_bytes = Bytes(options.weights_bytes + 64 * page_bytes);
  }
  return runtime;
}

Row MakeRow(const Subject& subject, const std::string& name, Samples samples, double scale) {
  for (double& value : samples.values) value *= scale;
  for (double& ceiling : samples.ceilings) ceiling *= scale;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples.ceilings.size(); ++i) {
    ratios.push_back(samples.values[i] / samples.ceilings[i]);
  }
  Row row{.name = name + "/" + subject.suffix,
          .value = Median(samples.values),
          .reps = static_cast<int>(samples.values.size()),
          .spread = Spread(samples.values)};
  if (ratios.empty()) return row;
  row.ceiling = Median(samples.ceilings);
  row.ceiling_of = subject.store == nullptr ? "plain copies" : "page store";
  row.ratio = Median(ratios);
  return row;
}

using Measure = std::function<absl::StatusOr<double>()>;

/// `ceiling` and `value` in turn, round by round.
absl::StatusOr<Samples> Alternate(const DeviceBenchOptions& options,
                                  const Measure& ceiling,
                                  const Measure& value) {
  Samples samples;
  for (int round = 0; round < options.rounds; ++round) {
    SLUICE_RETURN_IF_ERROR(CheckInterrupted(options));
    SLUICE_ASSIGN_OR_RETURN(const double most, ceiling());
    SLUICE_ASSIGN_OR_RETURN(const double reached, value());
    samples.ceilings.push_back(most);
    samples.values.push_back(reached);
  }
  return samples;
}

/// Bytes per second of the ceiling. The page store begins the load of the case.
absl::StatusOr<Measure> CeilingOf(Subject& subject, const RateCase& which) {
  if (subject.store != nullptr) {
    SLUICE_RETURN_IF_ERROR(subject.store->Begin(which.direction, which.pattern));
    return [&subject] { return subject.store->Rate(); };
  }
  return [&subject, rate = which.copies]() -> absl::StatusOr<double> {
    SLUICE_ASSIGN_OR_RETURN(const device::CopyRates rates,
                            subject.plain->Rates(subject.options.milliseconds));
    return rates.*rate;
  };
}

absl::Status AddRates(Subject& subject,
                      const RateCase& which,
                      const Measure& value,
                      const RowFn& add_row) {
  if (!MatchesPattern(subject.options.pattern, which.name + "/" + subject.suffix)) {
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const Measure ceiling, CeilingOf(subject, which));
  SLUICE_ASSIGN_OR_RETURN(Samples samples, Alternate(subject.options, ceiling, value));
  Row row = MakeRow(subject, which.name, std::move(samples), 1e-9);
  row.unit = "GB/s";
  add_row(row);
  return absl::OkStatus();
}

/// Seconds of leases that bring a page of one tensor after another, less those of a lease that
/// moves nothing. In a circle of twice as many tensors as there are frames, each one finds its
/// frame again. One more tensor, and none does.
absl::StatusOr<Samples> TimePageIns(Subject& subject, bool in_place) {
  Samples samples;
  std::vector<double> resident;
  const std::size_t circle = 2 * kFrames + (in_place ? 0 : 1);
  const std::size_t wanted = static_cast<std::size_t>(subject.options.page_ins);
  for (std::size_t i = 0; samples.values.size() < wanted && i < wanted + 4 * circle; ++i) {
    SLUICE_RETURN_IF_ERROR(CheckInterrupted(subject.options));
    SLUICE_ASSIGN_OR_RETURN(const LeaseTime comes, subject.leased->TimeLease(i % circle));
    SLUICE_ASSIGN_OR_RETURN(const LeaseTime there, subject.leased->TimeLease(i % circle));
    SLUICE_ASSIGN_OR_RETURN(const double copy, subject.plain->SecondsOfOneCopyIn());
    if (comes.in_place != in_place) continue;
    samples.values.push_back(comes.seconds);
    samples.ceilings.push_back(copy);
    resident.push_back(there.seconds);
  }
  if (samples.values.empty()) {
    return absl::InternalError(in_place ? "page-in/in-place: no page found its frame again"
                                        : "page-in/mapped-anew: each page found its frame again");
  }
  const double base = Median(resident);
  for (double& value : samples.values) value -= base;
  return samples;
}

absl::Status AddPageIn(Subject& subject, bool in_place, const RowFn& add_row) {
  const std::string name = in_place ? "page-in/in-place" : "page-in/mapped-anew";
  if (!MatchesPattern(subject.options.pattern, name + "/" + subject.suffix)) {
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(Samples samples, TimePageIns(subject, in_place));
  Row row = MakeRow(subject, name, std::move(samples), 1e6);
  row.unit = "us";
  add_row(row);
  return absl::OkStatus();
}

absl::Status MeasureWithLayers(Subject& subject, const RowFn& add_row) {
  LeasedRun& leased = *subject.leased;
  using device::CopyRates;
  const auto pass = [&leased](AccessMode mode) {
    return [&leased, mode] { return leased.Pass(mode, /*in_order=*/false); };
  };
  const RateCase in{.name = "in", .copies = &CopyRates::in};
  SLUICE_RETURN_IF_ERROR(AddRates(subject, in, pass(AccessMode::kRead), add_row));
  const RateCase out{.name = "out", .copies = &CopyRates::out, .direction = Direction::kWrite};
  SLUICE_RETURN_IF_ERROR(AddRates(subject, out, pass(AccessMode::kOverwrite), add_row));
  const RateCase both{.name = "both", .copies = &CopyRates::both, .direction = Direction::kMix};
  SLUICE_RETURN_IF_ERROR(AddRates(subject, both, pass(AccessMode::kReadWrite), add_row));
  for (int warm = 0; warm < 2; ++warm) SLUICE_RETURN_IF_ERROR(leased.PlannedPass().status());
  const RateCase weights{.name = "weights", .copies = &CopyRates::in, .pattern = Pattern::kSeq};
  return AddRates(
      subject, weights, [&leased] { return leased.PlannedPass(); }, add_row);
}

std::string SuffixOf(const DeviceBenchOptions& options, std::uint64_t page_bytes) {
  return fmt::format("{}MiB/{}{}",
                     page_bytes >> 20,
                     options.device == DeviceKind::kCuda ? "cuda" : "emulated",
                     options.directory.empty() ? "" : "/nvme");
}

absl::Status CheckPattern(const DeviceBenchOptions& options) {
  std::vector<std::string> names;
  for (const std::uint64_t page_bytes : options.page_bytes) {
    for (const std::string name :
         {"in", "out", "both", "weights", "page-in/in-place", "page-in/mapped-anew"}) {
      if (name.starts_with("page-in") && !options.directory.empty()) continue;
      names.push_back(fmt::format("{}/{}", name, SuffixOf(options, page_bytes)));
      if (MatchesPattern(options.pattern, names.back())) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("\"{}\" matches no case{}; cases are {}",
                               options.pattern,
                               base::DidYouMean(options.pattern, names),
                               fmt::join(names, ", "))));
}

absl::Status MeasurePages(const DeviceBenchOptions& options,
                          std::uint64_t page_bytes,
                          const RowFn& add_row) {
  const RuntimeOptions runtime = OptionsOf(options, page_bytes);
  Subject subject{
      .options = options, .page_bytes = page_bytes, .suffix = SuffixOf(options, page_bytes)};
  SLUICE_ASSIGN_OR_RETURN(subject.plain, PlainDevice::Create(runtime));
  if (!options.directory.empty()) {
    SLUICE_ASSIGN_OR_RETURN(subject.store,
                            PlainStore::Create({.directory = options.directory,
                                                .page_bytes = page_bytes,
                                                .bytes = options.weights_bytes,
                                                .milliseconds = options.milliseconds}));
  }
  SLUICE_ASSIGN_OR_RETURN(
      subject.leased, LeasedRun::Create(runtime, options.weights_bytes, LayerBytes(page_bytes)));
  SLUICE_RETURN_IF_ERROR(MeasureWithLayers(subject, add_row));
  if (!options.directory.empty()) return absl::OkStatus();
  subject.leased.reset();
  DeviceBenchOptions of_pages = options;
  of_pages.hbm_bytes = kFrames * page_bytes;
  of_pages.weights_bytes = (2 * kFrames + 1) * page_bytes;
  SLUICE_ASSIGN_OR_RETURN(
      subject.leased,
      LeasedRun::Create(OptionsOf(of_pages, page_bytes), of_pages.weights_bytes, page_bytes));
  SLUICE_RETURN_IF_ERROR(AddPageIn(subject, /*in_place=*/true, add_row));
  return AddPageIn(subject, /*in_place=*/false, add_row);
}

}  // namespace

std::uint64_t LayerBytes(std::uint64_t page_bytes) {
  return std::max(4 * page_bytes, std::uint64_t{16} << 20);
}

absl::Status RunDeviceBench(const DeviceBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckPattern(options));
  for (const std::uint64_t page_bytes : options.page_bytes) {
    SLUICE_RETURN_IF_ERROR(MeasurePages(options, page_bytes, add_row));
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench
