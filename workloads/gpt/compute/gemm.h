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

/// Extent of a tile of the result. It depends on nothing, so that the bits depend on no number of
/// threads. Smaller tiles keep more threads busy; larger ones read less.
inline constexpr int kTileRows = 128;
inline constexpr int kTileColumns = 192;

/// out (+)= scale * op(a) op(b), single precision. The result is cut into tiles; oneDNN makes each
/// in one call, on the thread that took it. The bits are the same for any number of threads. Where
/// oneDNN refuses (it takes memory of its own), ComputeThreads::failure says so.
void Gemm(ComputeThreads& threads,
          const GemmShape& shape,
          float scale,
          MatrixIn a,
          MatrixIn b,
          Accumulate accumulate,
          MatrixOut out);

/// The same with the same bits, on the calling thread alone; `threads` are told of a failure only.
/// Threads: reentrant.
void GemmAlone(ComputeThreads& threads,
               const GemmShape& shape,
               float scale,
               MatrixIn a,
               MatrixIn b,
               Accumulate accumulate,
               MatrixOut out);

/// Vector instructions, worst first. The kernels of the library and those of the processor compare.
enum class VectorSet { kNone, kSse4, kAvx, kAvx2, kAvx512 };
/// "AVX2"
std::string ToString(VectorSet set);

/// The library of the products, as it is loaded.
struct GemmLibrary {
  std::string name;                      ///< "oneDNN 2.6.3"
  VectorSet kernels = VectorSet::kNone;  ///< kernels for this processor
};
GemmLibrary DescribeGemmLibrary();

}  // namespace sluice::gpt
