#!/usr/bin/env bash
# Packs the command and the tests for a GPU, with the libraries that they need, into one archive.
#
#   scripts/gpu_bundle.sh [FILE]    FILE is build/sluice-gpu.tar.xz by default
#
# The archive holds a folder `sluice-gpu` that runs on any x86-64 Linux with glibc 2.36 or newer and an NVIDIA
# driver: no package, no root. `sluice-gpu/gpu_check.sh` runs everything there. Needs CUDA 13. Builds in
# build/bundle, for compute capabilities 8.0 to 12.0. Exit 2 when an option is wrong or CUDA is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 1 ] || [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
  exit 2
fi
archive=${1:-build/sluice-gpu.tar.xz}
build=build/bundle

scripts/setup.sh build
# Libraries are found beside the program, those of libraries as well, which only the old kind of tag does. A path of
# the build that `cmake --install` replaces ends in a colon: the loader would look in the current directory, too.
cmake --preset release -Wno-dev -B "$build" -DSLUICE_WITH_CUDA=ON \
  -DSLUICE_CUDA_ARCHITECTURES="80;86;89;90;100;120" \
  -DCMAKE_INSTALL_RPATH='$ORIGIN/lib' -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null || exit 2
ninja -C "$build" sluice_command gpu_test

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
folder=$temporary/sluice-gpu
mkdir -p "$folder/lib"
for program in sluice gpu_test; do
  strip -o "$folder/$program" "$build/bin/$program"
  # glibc's own libraries belong to the machine.
  ldd "$build/bin/$program" | awk '/=> \// {print $3}' |
    grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv)\.so\.' | xargs cp -L -u -t "$folder/lib"
done
cp scripts/gpu_check.sh LICENSE "$folder"
git rev-parse HEAD >"$folder/COMMIT"
tar -C "$temporary" -cf - sluice-gpu | xz -T0 -6 >"$archive"
echo "$archive: $(du -h "$archive" | cut -f 1), $(du -sh "$folder" | cut -f 1) unpacked"
