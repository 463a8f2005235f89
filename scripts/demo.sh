#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds, trains.
#
#   scripts/demo.sh [options of `sluice train`]
#
# A second run neither installs nor builds again. The build goes to build/release.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

"$root/scripts/setup.sh" build
cd "$root"
[ -f build/release/build.ninja ] || cmake --preset release -Wno-dev >/dev/null
echo "demo: building build/release/bin/sluice; the first time takes 5 to 10 minutes on 2 cores"
ninja -C build/release bin/sluice
exec build/release/bin/sluice train --config configs/train-gpt.toml "$@"
