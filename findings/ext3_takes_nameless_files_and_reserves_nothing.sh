#!/usr/bin/env bash
# e2fsprogs 1.47.0 (Debian 12), Linux 6.18: a file system made by mkfs.ext3 is served by the ext4 driver. It takes
# O_TMPFILE, O_DIRECT and linkat, and still refuses fallocate, which ext4 itself does not.
#
# A good guess is that a driver's features come together: the driver that gives nameless files (a feature of 2013)
# gives reserved space (2008), too. But fallocate needs extents, a property of the file, and mkfs.ext3 makes none.
# glibc hides that: posix_fallocate answers 0, because it writes a byte of every block when the system call is
# refused. So a spill file of 64 MiB costs 16384 calls in place of one, each dirties a page of the page cache, and a
# program that probes with posix_fallocate or O_TMPFILE never learns of it.
#
# Seen on a loop device:
#   ext3: O_TMPFILE 0, O_DIRECT 0, fallocate EOPNOTSUPP, posix_fallocate 0 with 16384 writes
#   ext4: O_TMPFILE 0, O_DIRECT 0, fallocate 0,          posix_fallocate 0 with     0 writes
# The script fails when one of these answers changes.
#
# Needs: Debian 12, root (loop mounts), e2fsprogs, gcc, strace, apt's package lists.
set -euo pipefail

temporary=$(mktemp -d)
trap 'umount "$temporary"/ext? 2>/dev/null || true; rm -rf "$temporary"' EXIT
cd "$temporary"
apt-get download strace=6.1-0.1 >/dev/null 2>&1
dpkg -x ./strace_*.deb root

cat >probe.c <<'SOURCE'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  (void)argc;
  const off_t bytes = 64 << 20;
  int file = open(argv[1], O_RDWR | O_TMPFILE, 0600);
  printf("O_TMPFILE %s, ", file < 0 ? strerrorname_np(errno) : "0");
  int direct = open(argv[1], O_RDWR | O_TMPFILE | O_DIRECT, 0600);
  printf("O_DIRECT %s, ", direct < 0 ? strerrorname_np(errno) : "0");
  printf("fallocate %s, ", fallocate(file, 0, 0, bytes) == 0 ? "0" : strerrorname_np(errno));
  printf("posix_fallocate %d\n", posix_fallocate(direct < 0 ? file : open(argv[1], O_RDWR | O_TMPFILE, 0600), 0, bytes));
  return 0;
}
SOURCE
gcc -O1 -Wall probe.c -o probe

# answers KIND: the line above for a file system of that kind.
answers() {
  truncate -s 200M "$1.img"
  "mkfs.$1" -q -b 4096 "$1.img"
  mkdir "$1"
  mount -o loop "$1.img" "$1"
  local said writes
  said=$(./root/usr/bin/strace -f -e trace=pwrite64 -o trace ./probe "$1")
  writes=$(grep -c 'pwrite64' trace || true)
  echo "$1: $said with $writes writes"
}
answers ext3 | tee seen
answers ext4 | tee -a seen
diff - seen <<'EXPECTED'
ext3: O_TMPFILE 0, O_DIRECT 0, fallocate EOPNOTSUPP, posix_fallocate 0 with 16384 writes
ext4: O_TMPFILE 0, O_DIRECT 0, fallocate 0, posix_fallocate 0 with 0 writes
EXPECTED
echo "as described, on Linux $(uname -r), $(mkfs.ext3 -V 2>&1 | head -n 1)"
