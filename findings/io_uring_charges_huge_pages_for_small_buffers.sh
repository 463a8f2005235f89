#!/usr/bin/env bash
# liburing 2.3 (Debian 12, liburing2 and liburing-dev 2.3-3) on Linux 6.18: a registered buffer of 4 KiB costs 2 MiB of
# the limit of locked memory if it lies in a transparent huge page, once for each ring.
#
# A good guess is that registration locks, and charges, the bytes of the buffer. The kernel charges the whole page that
# the buffer touches, whatever its size: 4 KiB, or 2 MiB where the memory has been given a huge page. The caller cannot
# tell from its own code. madvise, "always" as the system's mode, or khugepaged decide, perhaps between two starts of
# one program. Two buffers in one huge page are charged once, but two rings are charged each. So under the usual limit
# of 8 MiB three small buffers and their ring's own memory fit, and the fourth is ENOMEM, in a program that registers
# 64 of them without huge pages.
#
# Seen, an unprivileged user with 8 MiB (ulimit -l), buffers of 4 KiB, one in each 2 MiB of memory:
#   small pages: 64 buffers of a ring, 64 rings of one buffer
#   huge pages:   3 buffers of a ring,  3 rings of one buffer; 64 buffers that lie in one huge page
# The script fails when one of these changes.
#
# Needs: Debian 12 on x86-64, root (the limit does not hold for root; the program changes to user 65534), gcc, apt's
# package lists, a kernel that allows io_uring, transparent huge pages ("madvise" or "always").
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
apt-get download liburing2=2.3-3 liburing-dev=2.3-3 >/dev/null 2>&1
for package in ./*.deb; do dpkg -x "$package" root; done

cat >charge.c <<'SOURCE'
#define _GNU_SOURCE
#include <grp.h>
#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kMost = 64, kBuffer = 4096, kHuge = 2 << 20 };

static char *memory_of(int advice) {
  size_t bytes = (size_t)(kMost + 1) * kHuge;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(2);
  memory += kHuge - (uintptr_t)memory % kHuge;
  if (madvise(memory, (size_t)kMost * kHuge, advice) != 0) exit(2);
  memset(memory, 1, (size_t)kMost * kHuge);
  return memory;
}

/* Registers `count` buffers, the next `step` bytes behind the last. */
static int takes(char *memory, int count, size_t step, struct io_uring *ring) {
  struct iovec buffers[kMost];
  for (int i = 0; i < count; ++i) {
    buffers[i].iov_base = memory + (size_t)i * step;
    buffers[i].iov_len = kBuffer;
  }
  if (io_uring_queue_init(8, ring, 0) != 0) return 0;
  if (io_uring_register_buffers(ring, buffers, count) == 0) return 1;
  io_uring_queue_exit(ring);
  return 0;
}

/* The kernel gives the memory of an ended ring back a little later. */
static void settle(struct io_uring *ring) {
  io_uring_queue_exit(ring);
  usleep(50000);
}

static int most_of_one_ring(char *memory, size_t step) {
  struct io_uring ring;
  int count = 0;
  while (count < kMost && takes(memory, count + 1, step, &ring)) {
    settle(&ring);
    ++count;
  }
  return count;
}

static int most_rings(char *memory) {
  struct io_uring rings[kMost];
  int count = 0;
  while (count < kMost && takes(memory, 1, kBuffer, &rings[count])) ++count;
  for (int i = 0; i < count; ++i) settle(&rings[i]);
  return count;
}

int main(int argc, char **argv) {
  int huge = argc > 1 && strcmp(argv[1], "huge") == 0;
  struct rlimit limit = {8 << 20, 8 << 20};
  char *memory = memory_of(huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
  if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 2;
  printf("%s: %d apart, ", argv[1], most_of_one_ring(memory, kHuge));
  printf("%d together, ", most_of_one_ring(memory, kBuffer));
  printf("%d rings\n", most_rings(memory));
  return 0;
}
SOURCE
gcc -O1 -Iroot/usr/include -o charge charge.c root/usr/lib/x86_64-linux-gnu/liburing.so.2
for pages in small huge; do
  LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu ./charge "$pages"
done | tee seen
diff seen - <<'EXPECTED'
small: 64 apart, 64 together, 64 rings
huge: 3 apart, 64 together, 3 rings
EXPECTED
