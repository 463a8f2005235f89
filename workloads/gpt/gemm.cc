#include "workloads/gpt/gemm.h"

#include <cblas.h>

namespace sluice::gpt {

void Gemm(const GemmShape& shape,
          float scale,
          MatrixIn a,
          MatrixIn b,
          Accumulate accumulate,
          MatrixOut out) {
  cblas_sgemm(CblasRowMajor,
              shape.transpose_a ? CblasTrans : CblasNoTrans,
              shape.transpose_b ? CblasTrans : CblasNoTrans,
              shape.m,
              shape.n,
              shape.k,
              scale,
              a.data,
              a.stride,
              b.data,
              b.stride,
              accumulate == Accumulate::kYes ? 1.0f : 0.0f,
              out.data,
              out.stride);
}

void SetGemmThreads(int threads) { openblas_set_num_threads(threads); }

}  // namespace sluice::gpt
