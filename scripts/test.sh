#!/usr/bin/env bash
# Builds and tests.
#
#   scripts/test.sh              set-up, release build, fast tests, format, tidy, the installed package, the demo,
#                                docs/getting-started.md and the Python package
#   scripts/test.sh --ci         the same, clang-tidy on changed units, ASan and UBSan of the runtime, TSan of what
#                                has threads, and the part of the long mode that was run last
#   scripts/test.sh --long       everything: the stages of scripts/test.sh, then every part of the long mode
#   scripts/test.sh --part NAME  one of them: asan, tsan, clang-tidy, slow, fuzz
#   scripts/test.sh --next-part  the one that was not run for longest; adds its line to tests/long_runs.txt
#
# Writes to build/ and to one temporary directory that is removed at the end. Every stage prints its
# time, a failed one its output; skipped tests are listed with their reasons. Exit 0 when all passed, 1
# when a stage failed, 2 when a package is missing or an option is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
  exit 2
}

readonly runs=tests/long_runs.txt
part=
case "$*" in
  "") mode=short ;;
  --ci) mode=ci part=$(scripts/long_runs.py newest "$runs") ;;
  --long) mode=long ;;
  --next-part) mode=part part=$(scripts/long_runs.py next "$runs") ;;
  --part\ *) mode=part part=$2 ;;
  *) usage ;;
esac
case "$part" in
  "" | asan | tsan | clang-tidy | slow | fuzz) ;;
  *) echo "scripts/test.sh: \"$part\" is no part" >&2 && usage ;;
esac

scripts/setup.sh test

# The directory is on a disk, not on a tmpfs, where O_DIRECT could not be tested.
temporary=$(mktemp -d "${TMPDIR:-/var/tmp}/sluice-test.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT TERM
mkdir "$temporary/tests" "$temporary/logs"
export TMPDIR="$temporary/tests" TEST_TMPDIR="$temporary/tests" CCACHE_STATSLOG="$temporary/ccache"
jobs=$(nproc)
test_jobs=$((2 * jobs)) # tests wait for disks and threads
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
  "${wrapper[@]}" ctest --test-dir "build/$preset" -j "$test_jobs" --output-on-failure "$@" ||
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

# The hits decide how long the builds take.
print_ccache_hits() {
  [ -s "$CCACHE_STATSLOG" ] || return 0
  ccache --show-log-stats | sed -n 's/^ *Hits: */compiled before, by ccache: /p' | head -n 1
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

# write_checkpoint FILE: 8 tensors of 16 MiB in the safetensors format, twice the example's budget.
write_checkpoint() {
  local bytes=$((16 << 20)) header='{' i
  for i in 0 1 2 3 4 5 6 7; do
    header+="\"layer.$i\":{\"dtype\":\"U8\",\"shape\":[$bytes],\"data_offsets\":[$((i * bytes)),$(((i + 1) * bytes))]},"
  done
  header="${header%,}}"
  # The length as 8 bytes, the lowest first.
  printf '%b' "$(printf '\\x%x\\x%x\\0\\0\\0\\0\\0\\0' $((${#header} % 256)) $((${#header} / 256)))" >"$1"
  printf '%s' "$header" >>"$1"
  head -c $((8 * bytes)) /dev/urandom >>"$1"
}

# run_examples FOLDER: each says by its exit code whether its result is right.
run_examples() {
  local example
  write_checkpoint "$1/model.safetensors"
  mkdir "$1/saves"
  mkdir -m 700 "$1/drive0" "$1/drive1"
  for example in hello recorded_loop optimizer "policy --policy mru" "policy --policy lru" \
    "stream_weights $1/model.safetensors" streams budgets frames lookup sources views watch \
    "configured job.rows=8" callers_memory mixed_precision ranks experts "checkpoints $1/saves" "checkpoints $1/saves" \
    all_paged foresight "drives $1/drive0 $1/drive1" gpu machine counters debugging; do
    "$1"/$example || return
  done
  build/release/bin/sluice weights sum "$1/model.safetensors" &&
    "$1/stream_weights" "$1/model.safetensors" require
}

# An application outside the tree finds, builds and runs against what is installed.
check_package() {
  cmake --install build/release --prefix "$temporary/prefix" &&
    cmake -G Ninja -S examples -B "$temporary/examples" \
      -DCMAKE_PREFIX_PATH="$temporary/prefix" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" &&
    cmake --build "$temporary/examples" && run_examples "$temporary/examples" &&
    rm -rf "$temporary/examples" "$temporary/prefix"
}

# run_clang_tidy DATABASE_FOLDER: only its findings are left in the output.
run_clang_tidy() {
  local status=0 log="$temporary/logs/clang-tidy"
  run-clang-tidy-14 -quiet -j "$jobs" -p "$1" >"$log" 2>&1 || status=$?
  grep -v -E '^(clang-tidy-14 |[0-9]+ warnings? |Suppressed |Use -(header|system))' "$log" || true
  return "$status"
}

check_changed_units() {
  cmake --preset tidy -Wno-dev >/dev/null &&
    scripts/changed_units.py build/tidy HEAD~20 build/tidy/changed && run_clang_tidy build/tidy/changed
}

check_all_units() { cmake --preset tidy -Wno-dev >/dev/null && run_clang_tidy build/tidy; }

# The demo with 3 steps, and a program of one's own: every block of the page, in the folders that it names.
check_getting_started() { scripts/run_document.py docs/getting-started.md; }

# sanitizer_stages PRESET WHAT TARGET CTEST-OPTIONS...: builds a target and runs tests.
sanitizer_stages() {
  local preset=$1 what=$2 target=$3
  stage "build $preset, $what" build "$preset" "$target" || return 0
  tests "tests under $preset, $what" run_tests "$preset" --no-tests=error "${@:4}"
}

short_stages() {
  stage "format" check_format || true
  stage "build release" build release || return 0
  tests "tests" run_tests release --no-tests=error -LE slow
  stage "examples, installed package" check_package || true
  stage "demo and getting started" check_getting_started || true
  stage "python" scripts/test_python.sh build/release || true
}

# every_run_stages PART: what every run has of it.
every_run_stages() {
  case "$1" in
    asan) sanitizer_stages asan "runtime" tests_runtime -L runtime ;;
    tsan) sanitizer_stages tsan "threads" tests_threads -L threads ;;
  esac
}

# part_stages PART: what it adds to a run, meant to take at most 12 minutes on 2 cores.
part_stages() {
  local start=$SECONDS
  case "$1" in
    asan) sanitizer_stages asan "all but runtime" all -LE runtime ;;
    tsan) sanitizer_stages tsan "all but threads" all -LE threads ;;
    clang-tidy) stage "clang-tidy, all units" check_all_units || true ;;
    slow)
      stage "build release" build release || return 0
      tests "slow tests" run_tests release --no-tests=error -L slow
      ;;
    fuzz)
      if stage "build fuzz" build fuzz fuzz_targets; then
        tests "fuzz targets" run_tests fuzz --no-tests=error -L fuzz
      fi
      stage "planted bugs" scripts/mutants.sh || true
      grep '^mutants: \|skipped here' "$temporary/logs/stage" || true
      ;;
  esac
  part_minutes=$(((SECONDS - start + 59) / 60))
  echo "part $1 of the long mode: $part_minutes of its 12 minutes"
  # A slow or busy machine takes longer, and is no fault of the tree.
  [ "$part_minutes" -le 12 ] || echo "part $1 is too long: shorten it, or move tests to another part"
}

# whole_part PART: as if nothing else ran.
whole_part() {
  every_run_stages "$1"
  part_stages "$1"
}

ci_stages() {
  [ "$part" = clang-tidy ] || stage "clang-tidy, changed units" check_changed_units || true
  short_stages
  every_run_stages asan
  every_run_stages tsan
  part_stages "$part"
}

long_stages() {
  short_stages
  for part in asan tsan clang-tidy slow fuzz; do whole_part "$part"; done
}

if [ "$mode" = part ]; then whole_part "$part"; else "${mode}_stages"; fi
stage "nothing left behind" check_leftovers || true

python3 scripts/test_summary.py "$temporary/logs"
print_ccache_hits
echo "$mode run: $passed_stages stages ok, ${#failed[@]} failed, $SECONDS s"
[ "${#failed[@]}" = 0 ] || printf 'failed: %s\n' "${failed[@]}"
[ "${#failed[@]}" = 0 ] || exit 1
if [ "$*" = --next-part ]; then
  scripts/long_runs.py add "$runs" "$part" "$(git rev-parse --short=10 HEAD)" "$part_minutes"
  echo "commit $runs, which names this run"
fi
