#!/usr/bin/env bash
# Plants one bug after the other, and wants the one test that is to find it to fail.
#
#   scripts/mutants.sh            every bug of tests/mutants/mutants.txt
#   scripts/mutants.sh NAME...    these bugs, each by its patch: io/file/leave-the-name
#   scripts/mutants.sh --check    whether each patch still applies; builds nothing
#
# A bug is a patch of one source. The script applies it to a copy, compiles the copy, links the test binary
# with it and runs the test. A test that fails, aborts or takes 60 seconds has found the bug. A test that is
# skipped here has no say. Builds in build/mutants. Exit 0 when each bug is found, 1 when one is not, 2 when
# an option is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly table=tests/mutants/mutants.txt build=build/mutants seconds=60

usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
  exit 2
}

# rows: "name binary filter" of each bug.
rows() { grep -v -e '^#' -e '^$' "$table"; }

# patched_source NAME: the source that the patch changes.
patched_source() { sed -n 's|^+++ b/||p' "tests/mutants/$1.patch"; }

check_patches() {
  local name named planted bad=0
  named=$(rows | cut -d ' ' -f 1)
  planted=$(find tests/mutants -name '*.patch' -printf '%P\n' | sed 's|\.patch$||')
  for name in $(sort -u <<<"$named"$'\n'"$planted"); do
    if ! grep -qxF "$name" <<<"$named"; then
      echo "$name.patch has no line in $table" && bad=1
    elif ! git apply --check "tests/mutants/$name.patch"; then
      echo "tests/mutants/$name.patch does not apply: make the change in $(patched_source "$name") by hand," \
        "then: git diff -U1 > tests/mutants/$name.patch, and undo it" && bad=1
    fi
  done
  return "$bad"
}

# The sources with a bug are compiled alone, the others as in every preset.
build_product() {
  local sources
  sources=$(for name in $(rows | cut -d ' ' -f 1); do patched_source "$name"; done | sort -u | paste -s -d ';')
  cmake --preset release -Wno-dev -B "$build" -DSLUICE_BUILD_TOOLS=OFF \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g0" -DSLUICE_SEPARATE_SOURCES="$sources" &&
    ninja --quiet -C "$build" $(rows | cut -d ' ' -f 2 | sort -u)
}

# object_of SOURCE: its object file as ninja names it.
object_of() {
  ninja -C "$build" -t targets all | sed -n 's|: CXX_COMPILER.*||p' | while read -r object; do
    [ "$(sed 's|CMakeFiles/[^/]*\.dir/||' <<<"$object")" != "$1.o" ] || echo "$object"
  done
}

command_of() { ninja -C "$build" -t commands "$1" | tail -n 1; }

# link_mutant NAME BINARY FOLDER: the test binary FOLDER/test with the patched source.
link_mutant() {
  local source object compile link
  source=$(patched_source "$1")
  object=$(object_of "$source")
  mkdir -p "$3/$(dirname "$source")"
  cp "$source" "$3/$source"
  (cd "$3" && GIT_CEILING_DIRECTORIES="$(dirname "$3")" git apply "$OLDPWD/tests/mutants/$1.patch")
  compile=$(command_of "$object")
  compile=${compile//"$object"/"$3/mutant.o"}
  compile=${compile//"$PWD/$source"/"$3/$source"}
  link=$(command_of "bin/$2")
  (cd "$build" && eval "$compile -w" && eval "${link/"-o bin/$2"/"$3/mutant.o -o $3/test"}")
}

# run_test BINARY FILTER FOLDER: leaves the output in FOLDER/output; the exit status says how it went.
run_test() {
  mkdir -p "$3/tmp"
  TMPDIR="$3/tmp" TEST_TMPDIR="$3/tmp" timeout -k 5 "$seconds" "$1" --gtest_filter="$2" >"$3/output" 2>&1 </dev/null
}

# A bug in the order of threads does not show in every run.
passes_thrice() { run_test "$@" && run_test "$@" && run_test "$@"; }

# try_mutant NAME BINARY FILTER: one line of the table; "found" is its second word when it is.
try_mutant() {
  local folder verdict
  folder=$(mktemp -d "$temporary/XXXXXX")
  if ! run_test "$build/bin/$2" "$3" "$folder" 2>/dev/null || ! grep -q 'ran\. (' "$folder/output" ||
    grep -q ' 0 tests from ' "$folder/output"; then
    verdict="WRONG the test fails or is not there without the bug"
  elif grep -q '^\[  SKIPPED \]' "$folder/output"; then
    verdict="skipped here"
  elif ! link_mutant "$1" "$2" "$folder" >"$folder/output" 2>&1; then
    verdict="WRONG does not build: $(grep -m 1 -i error "$folder/output")"
  elif passes_thrice "$folder/test" "$3" "$folder" 2>/dev/null; then
    verdict="NOT FOUND"
  else
    verdict="found"
  fi
  printf '%-52s %s by %s\n' "$1" "$verdict" "$3"
  rm -rf "$folder"
}

try_all() {
  local name binary filter
  while read -r name binary filter; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    try_mutant "$name" "$binary" "$filter" &
  done
  wait
}

case "${1:-}" in
  --check)
    check_patches
    exit
    ;;
  -*) usage ;;
esac
check_patches
build_product
temporary=$(mktemp -d "${TMPDIR:-/var/tmp}/sluice-mutants.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT TERM
wanted=$(rows)
[ $# = 0 ] || wanted=$(for name; do rows | grep "^$name " || { echo "$table has no $name" >&2 && exit 2; }; done)
try_all <<<"$wanted" | tee "$temporary/verdicts"
found=$(grep -c '^[^ ]* *found by ' "$temporary/verdicts" || true)
skipped=$(grep -c '^[^ ]* *skipped here by ' "$temporary/verdicts" || true)
tried=$(($(wc -l <<<"$wanted") - skipped))
[ "$skipped" = 0 ] || grep '^[^ ]* *skipped here by ' "$temporary/verdicts"
echo "mutants: found $found of $tried"
[ "$found" = "$tried" ]
