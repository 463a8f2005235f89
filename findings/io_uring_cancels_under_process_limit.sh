#!/usr/bin/env bash
# liburing 2.3 (Debian 12, liburing2 and liburing-dev 2.3-3) on Linux 6.18: io_uring requests complete with
# ECANCELED, though nobody cancelled them, when the limit of processes (ulimit -u) leaves no room for a worker.
#
# A good guess is that the limit shows when the ring is set up, or as EAGAIN of a request, which is repeated. But
# io_uring_setup succeeds, and so do all requests that the kernel can finish inline, such as reads of cached pages
# and direct I/O on most file systems. A request that needs a worker (fsync, a buffered write on ext4) is completed
# with -ECANCELED, and the next attempt is, too.
#
# A program that takes ECANCELED for the answer to its own cancellation drops the request: an fsync that never ran
# counts as done. Workers are threads of the process for RLIMIT_NPROC, so a service that raises its number of rings,
# or shares its user with others, meets the limit late.
#
# Seen, an unprivileged user with one process:
#   limit 64: write 65536, fsync 0
#   limit  1: write 65536 or ECANCELED (by file system), fsync ECANCELED; pwrite and fsync of libc succeed
# The script fails when fsync succeeds under limit 1, or does not under limit 64.
#
# Needs: Debian 12 on x86-64, root (the limit does not hold for root; the program changes to user 65534), gcc, apt's
# package lists, a kernel that allows io_uring.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
apt-get download liburing2=2.3-3 liburing-dev=2.3-3 >/dev/null 2>&1
for package in ./*.deb; do dpkg -x "$package" root; done

cat >limit.c <<'SOURCE'
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct io_uring ring;

static int answer(void) {
  struct io_uring_cqe *cqe;
  if (io_uring_submit(&ring) < 0 || io_uring_wait_cqe(&ring, &cqe) < 0) exit(2);
  int result = cqe->res;
  io_uring_cqe_seen(&ring, cqe);
  return result;
}

static const char *text(int result) {
  static char number[2][32];
  static int turn;
  if (result < 0) return strerrorname_np(-result);
  snprintf(number[turn ^= 1], sizeof(number[0]), "%d", result);
  return number[turn];
}

int main(int argc, char **argv) {
  static char bytes[65536];
  struct rlimit limit = {strtoul(argv[1], NULL, 10), strtoul(argv[1], NULL, 10)};
  int file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (argc != 3 || file < 0 || setgid(65534) || setuid(65534) || setrlimit(RLIMIT_NPROC, &limit)) return 2;
  int setup = io_uring_queue_init(8, &ring, 0);
  if (setup < 0) return 2;
  struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
  io_uring_prep_write(sqe, file, bytes, sizeof(bytes), 0);
  int wrote = answer();
  sqe = io_uring_get_sqe(&ring);
  io_uring_prep_fsync(sqe, file, 0);
  int synced = answer();
  int plain = pwrite(file, bytes, sizeof(bytes), 0) == sizeof(bytes) && fsync(file) == 0;
  printf("limit %s: write %s, fsync %s; of libc %s\n", argv[1], text(wrote), text(synced),
         plain ? "ok" : "failed");
  return synced == 0 ? 0 : 1;
}
SOURCE
gcc -O1 -Wall -Iroot/usr/include limit.c -o limit -Lroot/usr/lib/x86_64-linux-gnu \
  -l:liburing.so.2 -Wl,-rpath,"$temporary/root/usr/lib/x86_64-linux-gnu"
chmod 755 . root limit
./limit 64 "$temporary/file" | tee out64
status=0
./limit 1 "$temporary/file" | tee out1 || status=$?
[ "$status" = 1 ] || { echo "changed: fsync succeeds without a worker (exit $status)"; exit 1; }
grep -q 'fsync 0; of libc ok' out64
grep -q 'fsync ECANCELED; of libc ok' out1
echo "as described, on Linux $(uname -r)"
