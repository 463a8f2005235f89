#!/usr/bin/env bash
# oneDNN 2.6.3 (Debian 12, libdnnl2 and libdnnl-dev 2.6.3-1): the bits of dnnl_sgemm depend on the number
# of OpenMP threads, but only for some shapes.
#
# A good guess is that a library either keeps the bits for every number of threads or for none. Here
# products of 384x384x1536 and 512x1536x384 keep them, so a check on layers of that size passes.
#
# Products with a long inner extent do not: 64x64x32768 (the gradient of a small weight over 32768 tokens)
# and 256x256x8192 with 3 threads, though not with 2 or 4. A library that splits the inner extent adds up
# partial sums in another order. A run that is resumed on a machine with another number of processors then
# leaves the bits of the unbroken run, in the weight gradients alone.
#
# Seen with AVX2 kernels (ONEDNN_MAX_CPU_ISA=AVX2, so that newer processors do the same), normal numbers:
#   384x384x1536   2, 3, 4 threads:   0,   0,    0 of 147456 elements differ from those of 1 thread
#   512x1536x384   2, 3, 4 threads:   0,   0,    0 of 786432
#   64x64x32768    2, 3, 4 threads: 244, 123, 3434 of 4096
#   256x256x8192   2, 3, 4 threads:   0, 938,    0 of 65536
# The script fails when the first two shapes begin to differ or the last two stop.
#
# Needs: Debian 12 on x86-64 with AVX2, g++ with OpenMP, apt's package lists, libopencl1 (ocl-icd).
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
apt-get download libdnnl2=2.6.3-1 libdnnl-dev=2.6.3-1 ocl-icd-libopencl1 >/dev/null 2>&1
for package in ./*.deb; do dpkg -x "$package" root; done

cat >bits.cc <<'SOURCE'
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

int main() {
  const int shapes[][3] = {{384, 384, 1536}, {512, 1536, 384}, {64, 64, 32768}, {256, 256, 8192}};
  for (const auto& [m, n, k] : shapes) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> a(m * k), b(k * n), one(m * n), c(m * n);
    for (float& x : a) x = normal(random);
    for (float& x : b) x = normal(random);
    omp_set_num_threads(1);
    dnnl_sgemm('N', 'N', m, n, k, 1, a.data(), k, b.data(), n, 0, one.data(), n);
    std::printf("%dx%dx%d", m, n, k);
    for (int threads = 2; threads <= 4; ++threads) {
      omp_set_num_threads(threads);
      dnnl_sgemm('N', 'N', m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
      int differ = 0;
      for (std::size_t i = 0; i < c.size(); ++i) differ += std::memcmp(&c[i], &one[i], 4) != 0;
      std::printf(" %d", differ);
    }
    std::printf("\n");
  }
}
SOURCE
libraries=root/usr/lib/x86_64-linux-gnu
g++ -std=c++20 -O1 -fopenmp -Iroot/usr/include bits.cc -o bits "-L$libraries" "-Wl,-rpath,$PWD/$libraries" \
  "-Wl,-rpath-link,$PWD/$libraries" -ldnnl
ONEDNN_MAX_CPU_ISA=AVX2 OMP_DYNAMIC=false LD_LIBRARY_PATH="$PWD/$libraries" ./bits | tee seen

same=$(grep -cE '^(384x384x1536|512x1536x384) 0 0 0$' seen || true)
differ=$(grep -cE '^(64x64x32768|256x256x8192) .*[1-9]' seen || true)
[ "$same" = 2 ] && [ "$differ" = 2 ] || { echo "oneDNN behaves differently now" >&2 && exit 1; }
echo "as described"
