#include "tools/train/gemm_rate.h"

#include <chrono>
#include <vector>

#include "workloads/gpt/gemm.h"

namespace sluice::tools {
namespace {

constexpr std::chrono::duration<double> kSecondsPerShape{0.05};

std::vector<float> Filled(int rows, int columns) {
  std::vector<float> matrix(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  float value = 0.5F;
  for (float& element : matrix) {
    value = 1.0F - value * value;
    element = value;
  }
  return matrix;
}

void Multiply(gpt::ComputeThreads& threads,
              const gpt::GemmShape& shape,
              const float* a,
              const float* b,
              float* c) {
  gpt::Gemm(threads,
            shape,
            1.0F,
            {a, shape.transpose_a ? shape.m : shape.k},
            {b, shape.transpose_b ? shape.k : shape.n},
            gpt::Accumulate::kNo,
            {c, shape.n});
}

/// Seconds of one product of this shape.
double SecondsOf(gpt::ComputeThreads& threads, const gpt::GemmShape& shape) {
  const std::vector<float> a = Filled(shape.m, shape.k);
  const std::vector<float> b = Filled(shape.k, shape.n);
  std::vector<float> c(static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n));
  Multiply(threads, shape, a.data(), b.data(), c.data());
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{0};
  int products = 0;
  while (elapsed < kSecondsPerShape) {
    Multiply(threads, shape, a.data(), b.data(), c.data());
    elapsed = std::chrono::steady_clock::now() - begin;
    ++products;
  }
  return elapsed.count() / products;
}

double FlopsOf(const gpt::GemmShape& shape) { return 2.0 * shape.m * shape.n * shape.k; }

}  // namespace

double MeasureGemmGflops(gpt::ComputeThreads& threads, std::span<const gpt::GemmShape> shapes) {
  double flops = 0;
  double seconds = 0;
  for (const gpt::GemmShape& shape : shapes) {
    const auto count = static_cast<double>(shape.count);
    flops += count * FlopsOf(shape);
    seconds += count * SecondsOf(threads, shape);
  }
  return seconds > 0 ? flops / seconds / 1e9 : 0;
}

}  // namespace sluice::tools
