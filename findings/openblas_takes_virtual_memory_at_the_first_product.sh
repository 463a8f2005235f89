#!/usr/bin/env bash
# OpenBLAS 0.3.21 (Debian 12, libopenblas0-pthread and libopenblas-dev 0.3.21+ds-4): the first matrix product takes
# 128 MiB of private writable memory, whatever its size, and keeps it.
#
# A good guess is that a product of 8x8 needs some kilobytes, and that memory which is not touched costs nothing. The
# library maps a buffer of 128 MiB per thread that calls it, of which some pages are touched. So VmData jumps at the
# first product, not at the start, while VmRSS hardly moves. A program that adds up its budgets under `ulimit -d`,
# `ulimit -v` or strict overcommit (vm.overcommit_memory = 2, common on HPC nodes) passes its own check at the start
# and finds the limit used up later. A budget by VmRSS never sees it.
#
# Seen, one thread, an 8x8 product: VmData grows by 131072 kB, VmRSS by 140 kB.
# The script fails when VmData grows by less than 100 MiB or VmRSS by more than 4 MiB.
#
# Needs: Debian 12 on x86-64, gcc, apt's package lists, libgfortran5 and libgomp1 (installed with gcc's runtime).
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
apt-get download libopenblas0-pthread=0.3.21+ds-4 libopenblas-pthread-dev=0.3.21+ds-4 libgfortran5 >/dev/null 2>&1
for package in ./*.deb; do dpkg -x "$package" root; done
lib=$temporary/root/usr/lib/x86_64-linux-gnu

cat >product.c <<'SOURCE'
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long kilobytes(const char *field) {
  char line[256];
  long value = -1;
  FILE *status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof(line), status) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) value = atol(line + strlen(field) + 1);
  }
  fclose(status);
  return value;
}

int main(void) {
  float a[64] = {1}, b[64] = {2}, c[64] = {0};
  long data = kilobytes("VmData"), resident = kilobytes("VmRSS");
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 8, 8, 8, 1, a, 8, b, 8, 0, c, 8);
  printf("%ld %ld\n", kilobytes("VmData") - data, kilobytes("VmRSS") - resident);
  return c[0] == 2 ? 0 : 2;
}
SOURCE
gcc -O1 product.c -o product -I"$temporary/root/usr/include/x86_64-linux-gnu/openblas-pthread" \
  "$lib/openblas-pthread/libopenblas.so.0" -Wl,-rpath,"$lib/openblas-pthread:$lib"
export OPENBLAS_NUM_THREADS=1
read -r data resident <<<"$(./product)"
echo "VmData +$data kB, VmRSS +$resident kB"
[ "$data" -ge 102400 ] || { echo "changed: the first product takes less"; exit 1; }
[ "$resident" -le 4096 ] || { echo "changed: the memory is touched"; exit 1; }
echo "as described"
