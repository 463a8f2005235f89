#include "bench/step/memory_rates.h"

#include <algorithm>

#include "base/status.h"
#include "bench/optim/byte_loop.h"
#include "bench/optim/parts.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kParametersMax = std::uint64_t{1} << 25;

std::uint64_t Measured(std::uint64_t parameters) {
  return std::min(parameters, kParametersMax) / kPartUnit * kPartUnit;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryRates>> MemoryRates::Create(const optim::KernelSpec& spec,
                                                                 std::uint64_t parameters) {
  SLUICE_ASSIGN_OR_RETURN(const optim::Kernel kernel, FindKernel(spec));
  auto rates = std::unique_ptr<MemoryRates>(new MemoryRates(kernel));
  SLUICE_ASSIGN_OR_RETURN(rates->data_, UpdateData::Create(spec, Measured(parameters)));
  // The kernel's threads touch the data once before a measurement.
  rates->KernelParametersPerSecond();
  return rates;
}

std::uint64_t MemoryRates::BytesOf(const optim::KernelSpec& spec, std::uint64_t parameters) {
  const optim::ElementBytes bytes = BytesPerElement(spec);
  const double each = bytes.Kept() + bytes.gradient;
  return static_cast<std::uint64_t>(each * static_cast<double>(Measured(parameters)));
}

double MemoryRates::LoopBytesPerSecond() const {
  const double ns =
      MeasureParts(data_->count(), AllowedProcessors(), [this](std::size_t begin, std::size_t end) {
        volatile unsigned sink = MoveBytes(data_->streams(), begin, end);
        static_cast<void>(sink);
      });
  return BytesPerElement(kernel_.spec()).Moved() / ns * 1e9;
}

double MemoryRates::KernelParametersPerSecond() const {
  const double ns =
      MeasureParts(data_->count(), AllowedProcessors(), [this](std::size_t begin, std::size_t end) {
        kernel_(data_->Args(begin, end - begin));
      });
  return 1e9 / ns;
}

}  // namespace sluice::bench
