#pragma once

#include <cstddef>

#include "workloads/gpt/trainer.h"

namespace sluice::gpt {

/// A matrix and the distance of its rows in elements.
struct MatrixIn {
  const float* data = nullptr;
  int stride = 0;
};
struct MatrixOut {
  float* data = nullptr;
  int stride = 0;
};

/// Whether a product replaces the result or is added to it.
enum class Accumulate { kNo, kYes };

/// out (+)= scale * op(a) op(b), single precision, by OpenBLAS. Deterministic for one thread count.
void Gemm(const GemmShape& shape,
          float scale,
          MatrixIn a,
          MatrixIn b,
          Accumulate accumulate,
          MatrixOut out);

/// Threads of all later products of the process (OpenBLAS keeps the number globally).
void SetGemmThreads(int threads);

}  // namespace sluice::gpt
