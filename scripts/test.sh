#!/usr/bin/env bash
# Builds and tests everything.
#
#   scripts/test.sh          set-up, release build, tests, format, tidy, the installed package
#   scripts/test.sh --long   what is slow: clang-tidy, slow tests, sanitizer builds with their tests and fuzz targets
#
# Writes to build/ and to one temporary directory that is removed at the end. Every stage prints its
# time, a failed one its output; skipped tests are listed with their reasons. Exit 0 when all passed, 1
# when a stage failed, 2 when a package is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

case "$*" in
  "") mode=short ;;
  --long) mode=long ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
    exit 2
    ;;
esac

scripts/setup.sh test

# On a disk rather than on a tmpfs, where O_DIRECT could not be tested.
temporary=$(mktemp -d "${TMPDIR:-/var/tmp}/sluice-test.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT TERM
mkdir "$temporary/tests" "$temporary/logs"
export TMPDIR="$temporary/tests" TEST_TMPDIR="$temporary/tests"
jobs=$(nproc)
failed=()
passed_stages=0

# stage NAME COMMAND...: runs it quietly; prints its time, and its output when it fails.
stage() {
  local name=$1 log="$temporary/logs/stage" start=$SECONDS status=0
  shift
  printf '%-34s ' "$name"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" = 0 ]; then
    printf 'ok      %4d s\n' $((SECONDS - start))
    passed_stages=$((passed_stages + 1))
    return 0
  fi
  printf 'FAILED  %4d s (exit %d)\n' $((SECONDS - start)) "$status"
  tail -n 300 "$log"
  failed+=("$name")
  return 1
}

# build PRESET TARGETS...: everything when no target is named.
build() {
  [ -f "build/$1/build.ninja" ] || cmake --preset "$1" -Wno-dev || return
  ninja --quiet -j "$jobs" -C "build/$1" "${@:2}"
}

# run_tests PRESET CTEST-OPTIONS...: leaves the log for the summary.
run_tests() {
  local preset=$1 status=0 wrapper=() log="build/$1/Testing/Temporary/LastTest.log"
  shift
  rm -f "$log"
  # ThreadSanitizer needs its address ranges free: no randomisation of the address space.
  [ "$preset" != tsan ] || wrapper=(setarch "$(uname -m)" -R)
  "${wrapper[@]}" ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure "$@" ||
    status=$?
  [ ! -f "$log" ] || cp "$log" "$temporary/logs/$preset-$tests_run.ctest"
  return "$status"
}
tests_run=0
tests() {
  tests_run=$((tests_run + 1))
  stage "$@" || true
}

check_leftovers() {
  local left
  left=$(find "$TMPDIR" -mindepth 1 | head -n 20)
  [ -z "$left" ] || { printf 'tests left behind:\n%s\n' "$left" && return 1; }
}

project_sources() {
  git ls-files -co --exclude-standard -- '*.cc' '*.h' | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
  done
}

check_format() {
  local bad
  bad=$(project_sources | xargs clang-format-14 --dry-run 2>&1 | sed -n 's/:[0-9].*//p' | sort -u) || return
  [ -z "$bad" ] || { printf 'clang-format-14 -i %s\n' $bad && return 1; }
}

# An application outside the tree finds, builds and runs against what is installed.
check_package() {
  cmake --install build/release --prefix "$temporary/prefix" &&
    cmake -G Ninja -S examples/embed -B "$temporary/embed" \
      -DCMAKE_PREFIX_PATH="$temporary/prefix" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" &&
    cmake --build "$temporary/embed" && "$temporary/embed/embed" &&
    rm -rf "$temporary/embed" "$temporary/prefix"
}

check_clang_tidy() {
  local status=0 log="$temporary/logs/clang-tidy"
  cmake --preset tidy -Wno-dev >"$log" &&
    run-clang-tidy-14 -quiet -j "$jobs" -p build/tidy >"$log" 2>&1 || status=$?
  grep -v -E '^(clang-tidy-14 |[0-9]+ warnings? |Suppressed |Use -(header|system))' "$log" || true
  return "$status"
}

check_demo() { scripts/demo.sh --set train.steps=3; }

short_stages() {
  stage "format" check_format || true
  stage "build release" build release || return 0
  tests "tests" run_tests release --no-tests=error -LE slow
  stage "embed, installed package" check_package || true
}

long_stages() {
  stage "build release" build release || return 0
  stage "demo, 3 steps" check_demo || true
  stage "clang-tidy" check_clang_tidy || true
  tests "slow tests" run_tests release -L slow
  local preset
  for preset in asan tsan; do
    if stage "build $preset" build "$preset"; then
      tests "tests under $preset" run_tests "$preset" --no-tests=error -LE 'slow|meta'
    fi
  done
}

"${mode}_stages"
stage "nothing left behind" check_leftovers || true

python3 scripts/test_summary.py "$temporary/logs"
echo "$mode run: $passed_stages stages ok, ${#failed[@]} failed, $SECONDS s"
[ "${#failed[@]}" = 0 ] || printf 'failed: %s\n' "${failed[@]}"
[ "${#failed[@]}" = 0 ]
