#include "workloads/gpt/compute/gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "workloads/gpt/compute/signals_blocked.h"

/// Function of libgomp, which oneDNN is linked with. Its header is in one of GCC's own folders,
/// where clang does not look.
extern "C" void omp_set_num_threads(int threads);  // NOLINT(readability-identifier-naming)

namespace sluice::gpt {
namespace {

/// Operations of a product that ends sooner than another thread wakes up.
constexpr double kFlopsAlone = 2e6;

struct Product {
  const GemmShape& shape;
  float scale;
  MatrixIn a;
  MatrixIn b;
  Accumulate accumulate;
  MatrixOut out;
};

/// The tiles of a product, row by row.
class Tiles {
 public:
  explicit Tiles(const GemmShape& shape)
      : across_(Along(shape.n, kTileColumns)), count_(Along(shape.m, kTileRows) * across_) {}
  std::size_t count() const { return static_cast<std::size_t>(count_); }
  int Row(std::size_t tile) const { return static_cast<int>(tile) / across_ * kTileRows; }
  int Column(std::size_t tile) const { return static_cast<int>(tile) % across_ * kTileColumns; }

 private:
  static int Along(int size, int tile) { return (size + tile - 1) / tile; }
  const int across_;
  const int count_;
};

absl::Status Refused(dnnl_status_t status, const GemmShape& shape) {
  const bool memory = status == dnnl_out_of_memory;
  return absl::Status(
      memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      fmt::format("oneDNN refuses a product of {} x {} x {} ({}){}",
                  shape.m,
                  shape.n,
                  shape.k,
                  memory ? "out of memory" : fmt::format("status {}", static_cast<int>(status)),
                  memory ? "; leave the process more memory (ulimit -v, cgroup)" : ""));
}

/// The tile whose first element is (row, column).
void MultiplyTile(ComputeThreads& threads, const Product& product, int row, int column) {
  const auto& [shape, scale, a, b, accumulate, out] = product;
  const std::ptrdiff_t a_step = shape.transpose_a ? 1 : a.stride;
  const std::ptrdiff_t b_step = shape.transpose_b ? b.stride : 1;
  // OpenMP keeps the number by thread. With one thread oneDNN starts none of its own.
  omp_set_num_threads(1);
  // A handler whose frame goes below a product of oneDNN 2.6 on the stack leaves a corrupt heap.
  const SignalsBlocked blocked;
  const dnnl_status_t status = dnnl_sgemm(shape.transpose_a ? 'T' : 'N',
                                          shape.transpose_b ? 'T' : 'N',
                                          std::min(kTileRows, shape.m - row),
                                          std::min(kTileColumns, shape.n - column),
                                          shape.k,
                                          scale,
                                          a.data + row * a_step,
                                          a.stride,
                                          b.data + column * b_step,
                                          b.stride,
                                          accumulate == Accumulate::kYes ? 1.0f : 0.0f,
                                          out.data + std::ptrdiff_t{row} * out.stride + column,
                                          out.stride);
  if (status != dnnl_success) threads.NoteFailure(Refused(status, shape));
}

}  // namespace

void Gemm(ComputeThreads& threads,
          const GemmShape& shape,
          float scale,
          MatrixIn a,
          MatrixIn b,
          Accumulate accumulate,
          MatrixOut out) {
  if (2.0 * shape.m * shape.n * shape.k < kFlopsAlone) {
    return GemmAlone(threads, shape, scale, a, b, accumulate, out);
  }
  const Product product{shape, scale, a, b, accumulate, out};
  const Tiles tiles(shape);
  threads.ForEach(tiles.count(), [&](std::size_t i) {
    MultiplyTile(threads, product, tiles.Row(i), tiles.Column(i));
  });
}

void GemmAlone(ComputeThreads& threads,
               const GemmShape& shape,
               float scale,
               MatrixIn a,
               MatrixIn b,
               Accumulate accumulate,
               MatrixOut out) {
  const Product product{shape, scale, a, b, accumulate, out};
  const Tiles tiles(shape);
  for (std::size_t i = 0; i < tiles.count(); ++i) {
    MultiplyTile(threads, product, tiles.Row(i), tiles.Column(i));
  }
}

std::string ToString(VectorSet set) {
  constexpr const char* kNames[] = {"scalar", "SSE4", "AVX", "AVX2", "AVX-512"};
  return kNames[static_cast<int>(set)];
}

GemmLibrary DescribeGemmLibrary() {
  const dnnl_version_t& version = *dnnl_version();
  // Each set of instructions is a set of bits that holds those of the sets that it contains.
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  VectorSet kernels = VectorSet::kNone;
  const auto has = [&](unsigned bits, VectorSet set) {
    if ((isa & bits) == bits) kernels = set;
  };
  has(dnnl_cpu_isa_sse41, VectorSet::kSse4);
  has(dnnl_cpu_isa_avx, VectorSet::kAvx);
  has(dnnl_cpu_isa_avx2, VectorSet::kAvx2);
  has(dnnl_cpu_isa_avx512_core, VectorSet::kAvx512);
  return {fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch), kernels};
}

}  // namespace sluice::gpt
