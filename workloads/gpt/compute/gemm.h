#pragma once

#include <string>

#include "workloads/gpt/compute/compute_threads.h"
#include "workloads/gpt/training/trainer.h"

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

/// Extent of a tile of the result. It depends on nothing, so that the bits do not depend on the
/// number of threads. Smaller tiles keep more threads busy; larger ones read less.
inline constexpr int kTileRows = 128;
inline constexpr int kTileColumns = 192;

/// out (+)= scale * op(a) op(b), single precision. The result is cut into tiles; oneDNN makes each
/// in one call, on the thread that took it. The bits are the same for any number of threads.
/// ComputeThreads::failure tells if oneDNN refuses, as it takes memory of its own.
void Gemm(ComputeThreads& threads,
          const GemmShape& shape,
          float scale,
          MatrixIn a,
          MatrixIn b,
          Accumulate accumulate,
          MatrixOut out);

/// Does Gemm, with the same bits, on the calling thread alone. `threads` are only told of a
/// failure. Threads: reentrant.
void GemmAlone(ComputeThreads& threads,
               const GemmShape& shape,
               float scale,
               MatrixIn a,
               MatrixIn b,
               Accumulate accumulate,
               MatrixOut out);

/// Vector instructions, worst first. The sets of the library's kernels and of the processor can be
/// compared.
enum class VectorSet { kNone, kSse4, kAvx, kAvx2, kAvx512 };
/// Name of the set: "AVX2".
std::string ToString(VectorSet set);

/// The library of the products, as it is loaded.
struct GemmLibrary {
  std::string name;                      ///< name and version: "oneDNN 2.6.3"
  VectorSet kernels = VectorSet::kNone;  ///< kernels for this processor
};
GemmLibrary DescribeGemmLibrary();

}  // namespace sluice::gpt
