#include "bench/device/device_rows.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "bench/device/gemm_loop.h"
#include "bench/store/load.h"
#include "bench/store/statistics.h"

namespace sluice::bench {
namespace {

/// Ceiling of the rates of a row: the copies of the device, or the load of a page store.
struct RateCase {
  std::string name;  ///< "in"
  AccessMode mode = AccessMode::kRead;
  double device::CopyRates::*copies = nullptr;
  Direction direction = Direction::kRead;
  Pattern pattern = Pattern::kRandom;
  double bar = 0.97;  ///< share of the ceiling that is asked for on a GPU
};

/// Values of each round, and the ceiling in it.
struct Samples {
  std::vector<double> values;
  std::vector<double> ceilings;
};

/// End of the name of a case whose copies run beside matrix products.
constexpr char kBesideGemm[] = "/beside-gemm";
/// Share of the ceiling that is asked for of a GPU beside matrix products, and from nvme.
constexpr double kBarOfTwo = 0.95;
/// Microseconds beyond the copy that a page-in may take on a GPU, by whether the page finds its
/// frame again.
constexpr double kInPlaceMicroseconds = 15;
constexpr double kMappedAnewMicroseconds = 65;

absl::Status CheckInterrupted(const DeviceBenchOptions& options) {
  if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

bool Wanted(const Subject& subject, const std::string& name) {
  return MatchesPattern(subject.options.pattern, name + "/" + subject.suffix);
}

/// Bars are those of a GPU. An emulated device has none.
bool IsJudged(const Subject& subject) { return subject.options.device == DeviceKind::kCuda; }

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
  if (!Wanted(subject, which.name)) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const Measure ceiling, CeilingOf(subject, which));
  SLUICE_ASSIGN_OR_RETURN(Samples samples, Alternate(subject.options, ceiling, value));
  Row row = MakeRow(subject, which.name, std::move(samples), 1e-9);
  row.unit = "GB/s";
  if (IsJudged(subject)) {
    row.bar = subject.store == nullptr ? which.bar : kBarOfTwo;
    row.reached = *row.ratio >= *row.bar;
  }
  add_row(row);
  return absl::OkStatus();
}

/// Seconds of leases that bring a page of one tensor after another, less those of a lease that
/// moves nothing. In a circle of twice as many tensors as there are frames, each one finds its
/// frame again. One more tensor, and none does.
absl::StatusOr<Samples> TimePageIns(Subject& subject, bool in_place) {
  Samples samples;
  std::vector<double> resident;
  const std::size_t circle = 2 * kPageInFrames + (in_place ? 0 : 1);
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
  if (!Wanted(subject, name)) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(Samples samples, TimePageIns(subject, in_place));
  Row row = MakeRow(subject, name, std::move(samples), 1e6);
  row.unit = "us";
  if (IsJudged(subject)) {
    row.over_max = in_place ? kInPlaceMicroseconds : kMappedAnewMicroseconds;
    row.reached = row.value - *row.ceiling <= *row.over_max;
  }
  add_row(row);
  return absl::OkStatus();
}

/// The three directions, each in turn.
std::vector<RateCase> Directions() {
  using device::CopyRates;
  return {{.name = "in", .copies = &CopyRates::in},
          {.name = "out",
           .mode = AccessMode::kOverwrite,
           .copies = &CopyRates::out,
           .direction = Direction::kWrite},
          {.name = "both",
           .mode = AccessMode::kReadWrite,
           .copies = &CopyRates::both,
           .direction = Direction::kMix}};
}

absl::Status AddPasses(Subject& subject, const RateCase& which, const RowFn& add_row) {
  const Measure pass = [&]() -> absl::StatusOr<double> {
    SLUICE_ASSIGN_OR_RETURN(const Moved moved,
                            subject.leased->Pass(which.mode, /*in_order=*/false));
    return moved.rate();
  };
  return AddRates(subject, which, pass, add_row);
}

/// The device computes during the copies of both sides.
absl::Status AddPassesBesideGemm(Subject& subject, RateCase which, const RowFn& add_row) {
  which.name += kBesideGemm;
  which.bar = kBarOfTwo;
  if (!Wanted(subject, which.name)) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<GemmLoop> gemm, GemmLoop::Start(subject.runtime));
  SLUICE_RETURN_IF_ERROR(AddPasses(subject, which, add_row));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t products, gemm->Stop());
  if (products > 0) return absl::OkStatus();
  return absl::InternalError(
      base::ToAbsl(which.name + ": no matrix product ran beside the copies"));
}

}  // namespace

absl::Status AddLayers(Subject& subject, const RowFn& add_row) {
  for (const RateCase& which : Directions()) {
    SLUICE_RETURN_IF_ERROR(AddPasses(subject, which, add_row));
  }
  LeasedRun& leased = *subject.leased;
  for (int warm = 0; warm < 2; ++warm) SLUICE_RETURN_IF_ERROR(leased.PlannedPass().status());
  const Measure pass = [&leased]() -> absl::StatusOr<double> {
    SLUICE_ASSIGN_OR_RETURN(const Moved moved, leased.PlannedPass());
    return moved.rate();
  };
  const RateCase weights{
      .name = "weights", .copies = &device::CopyRates::in, .pattern = Pattern::kSeq};
  SLUICE_RETURN_IF_ERROR(AddRates(subject, weights, pass, add_row));
  if (subject.store != nullptr) return absl::OkStatus();
  for (const RateCase& which : Directions()) {
    SLUICE_RETURN_IF_ERROR(AddPassesBesideGemm(subject, which, add_row));
  }
  return absl::OkStatus();
}

/// Names of the cases, in the order of their rows.
std::vector<std::string> CaseNames(bool from_nvme) {
  std::vector<std::string> names;
  for (const RateCase& each : Directions()) names.push_back(each.name);
  names.push_back("weights");
  if (from_nvme) return names;
  for (const RateCase& each : Directions()) names.push_back(each.name + kBesideGemm);
  names.insert(names.end(), {"page-in/in-place", "page-in/mapped-anew"});
  return names;
}

absl::Status AddPageIns(Subject& subject, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(AddPageIn(subject, /*in_place=*/true, add_row));
  return AddPageIn(subject, /*in_place=*/false, add_row);
}

}  // namespace sluice::bench
