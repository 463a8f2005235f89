#!/usr/bin/env bash
# Installs the Debian packages that are missing.
#
#   scripts/setup.sh build|python|test
#
# The lists are in scripts/packages.txt; `python` includes `build`, `test` both. Uses sudo only when not root. Exit 2,
# naming the packages, when some are missing and cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  build) wanted=$(awk '$1 == "build" {print $2}' scripts/packages.txt) ;;
  python) wanted=$(awk '$1 == "build" || $1 == "python" {print $2}' scripts/packages.txt) ;;
  test) wanted=$(awk '$1 == "build" || $1 == "python" || $1 == "test" {print $2}' scripts/packages.txt) ;;
  *)
    echo "usage: scripts/setup.sh build|python|test" >&2
    exit 2
    ;;
esac

missing_packages() {
  local package
  for package in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

fail() {
  echo "setup: $1" >&2
  echo "setup: needed, missing and not installed: $(echo $missing)" >&2
  exit 2
}

command -v dpkg-query >/dev/null ||
  { missing=$wanted && fail "this is no Debian: install the equivalents by hand"; }
missing=$(missing_packages)
if [ -z "$missing" ]; then
  echo "setup: all $(echo "$wanted" | wc -l) packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "neither root nor sudo"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null; }

echo "setup: installing $(echo $missing)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be stale or absent: they are fetched only when the first try fails.
if ! apt install -y --no-install-recommends $missing >"$log" 2>&1; then
  { apt update && apt install -y --no-install-recommends $missing; } >>"$log" 2>&1 || true
fi
missing=$(missing_packages)
if [ -n "$missing" ]; then
  grep -E '^(E|W):' "$log" | tail -n 5 >&2 || true
  fail "apt-get could not install everything"
fi
echo "setup: done"
