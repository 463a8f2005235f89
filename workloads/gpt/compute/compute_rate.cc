#include "workloads/gpt/compute/compute_rate.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "fmt/format.h"
#include "workloads/gpt/compute/peak_loop.h"

namespace sluice::gpt {
namespace {

constexpr int kRounds = 10;
/// A quarter of the peak: less is the mark of kernels for another processor.
constexpr double kShareMin = 0.25;
/// Depth of the products: that of a middling model.
constexpr int kDepth = 512;
/// Tiles of a thread in one round.
constexpr int kTilesEach = 4;

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Products of one tile each, whatever the model, so that a low share is the library's fault.
class SampleProducts {
 public:
  explicit SampleProducts(ComputeThreads& threads)
      : threads_(threads),
        a_(kTileRows * kDepth, 0.5f),
        b_(kDepth * kTileColumns, 0.25f),
        out_(Count() * kTileElements) {}

  double flops() const {
    return 2.0 * kTileElements * kDepth * kTilesEach * static_cast<double>(Count());
  }

  void Multiply() {
    threads_.ForEach(Count(), [this](std::size_t i) {
      const MatrixOut out{out_.data() + i * kTileElements, kTileColumns};
      for (int tile = 0; tile < kTilesEach; ++tile) {
        GemmAlone(threads_,
                  {.m = kTileRows, .n = kTileColumns, .k = kDepth},
                  1.0f,
                  {a_.data(), kDepth},
                  {b_.data(), kTileColumns},
                  Accumulate::kNo,
                  out);
      }
    });
  }

 private:
  static constexpr std::size_t kTileElements = kTileRows * kTileColumns;
  std::size_t Count() const { return static_cast<std::size_t>(threads_.count()); }

  ComputeThreads& threads_;
  const std::vector<float> a_;
  const std::vector<float> b_;
  std::vector<float> out_;
};

}  // namespace

ComputeRate MeasureCompute(ComputeThreads& threads) {
  ComputeRate rate{
      .library = DescribeGemmLibrary(), .processor = PeakVectorSet(), .threads = threads.count()};
  SampleProducts products(threads);
  products.Multiply();  // makes the kernels, and maps the memory
  const auto loops = static_cast<std::size_t>(kTilesEach * threads.count());
  std::vector<double> flops(loops);
  for (int round = 0; round < kRounds; ++round) {
    const double seconds = SecondsOf([&] { products.Multiply(); });
    rate.gflops = std::max(rate.gflops, products.flops() / seconds / 1e9);
    const double loop_seconds = SecondsOf(
        [&] { threads.ForEach(loops, [&](std::size_t i) { flops[i] = RunPeakLoop(); }); });
    const double peak = static_cast<double>(loops) * flops[0] / loop_seconds / 1e9;
    rate.peak_gflops = std::max(rate.peak_gflops, peak);
  }
  return rate;
}

std::optional<FallbackEvent> FallbackOf(const ComputeRate& rate) {
  const bool old = rate.library.kernels < rate.processor;
  if (!old && rate.PeakShare() >= kShareMin) return std::nullopt;
  const std::string reason =
      old ? fmt::format("the processor has {}; is ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA set?",
                        ToString(rate.processor))
          : fmt::format("{} has no good kernels for this processor, or other work took its time",
                        rate.library.name);
  return FallbackEvent{.what = "matrix_products",
                       .reason = reason,
                       .chosen = fmt::format("{} kernels at {:.0f} % of the peak",
                                             ToString(rate.library.kernels),
                                             100 * rate.PeakShare())};
}

std::string Describe(const ComputeRate& rate) {
  return fmt::format("{}, {} kernels, {} thread{}: {:.0f} % of the peak ({:.0f} of {:.0f} GFLOP/s)",
                     rate.library.name,
                     ToString(rate.library.kernels),
                     rate.threads,
                     rate.threads == 1 ? "" : "s",
                     100 * rate.PeakShare(),
                     rate.gflops,
                     rate.peak_gflops);
}

}  // namespace sluice::gpt
