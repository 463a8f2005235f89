#pragma once

#include <optional>
#include <string>

#include "sluice/events.h"
#include "workloads/gpt/compute/gemm.h"

namespace sluice::gpt {

/// Rate of matrix products on some threads, beside the peak of the processor.
struct ComputeRate {
  GemmLibrary library;
  VectorSet processor = VectorSet::kNone;  ///< best set of the processor
  int threads = 0;
  double gflops = 0;       ///< rate of products, all threads together
  double peak_gflops = 0;  ///< rate of multiply-adds in registers, same threads

  double PeakShare() const { return peak_gflops > 0 ? gflops / peak_gflops : 0; }
};

/// Measures both rates in turn and keeps the best of each. Takes about 0.1 s, and a MiB of memory.
ComputeRate MeasureCompute(ComputeThreads& threads);

/// The fallback that the rate shows: a share of the peak below a quarter, or kernels for older
/// processors than this one. None where the rate is good.
std::optional<FallbackEvent> FallbackOf(const ComputeRate& rate);

/// The rate as text: "oneDNN 2.6.3, AVX2 kernels, 2 threads: 71 % of the peak (140 of 197
/// GFLOP/s)".
std::string Describe(const ComputeRate& rate);

}  // namespace sluice::gpt
