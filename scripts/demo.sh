#!/usr/bin/env bash
# Path from a fresh Debian 12 to a trained model: installs missing packages, builds, trains.
#
#   scripts/demo.sh [options of `sluice train`]
#
# A second run neither installs nor builds again. The build goes to build/release of this tree; paths among the
# options are relative to the directory that this is run in.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release

# Standard output is that of the command.
"$root/scripts/setup.sh" build >&2
[ -f "$build/build.ninja" ] || (cd "$root" && cmake --preset release -Wno-dev >/dev/null)
echo "demo: building build/release/bin/sluice" >&2
[ -x "$build/bin/sluice" ] || echo "demo: the first time takes 4 to 7 minutes on 2 cores" >&2
ninja -C "$build" bin/sluice >&2
config=(--config "$root/configs/train-gpt.toml")
for option in "$@"; do
  case $option in --config | --config=*) config=() ;; esac
done
exec "$build/bin/sluice" train "${config[@]}" "$@"
