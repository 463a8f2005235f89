#!/usr/bin/env bash
# Runs on a machine with a GPU what has no meaning elsewhere, the most telling cases first.
#
#   gpu_check.sh [--dir DIR] [FILE]
#
# Prints one line of JSON per case, at once, and appends it to FILE: case, passed, failed, skipped, seconds, limit_s
# and status (0: all passed, 124: out of time), or a row of `sluice bench device`. A case that did not run says why in
# `left_out`. The output of what fails goes to FILE.log. --dir names a folder on the disk whose pages are to go to the
# GPU. Ends within 5 minutes: a case for which no time is left has status 124. Leaves the settings of the card alone.
# Exit 1 when a case failed, or a row says that it does not reach its target. Exit 2 when an option is wrong or there is
# no GPU; nothing is written then.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0" >&2
  exit 2
}

directory=
file=gpu-check.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    --dir)
      [ $# -gt 1 ] || usage
      directory=$2
      shift
      ;;
    -*) usage ;;
    *) file=$1 ;;
  esac
  shift
done
log=$file.log
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
bad=0

# Seconds until the last case has to end. A case that does not end by itself takes 5 more.
readonly end_s=290
# clip LIMIT: the limit, or what is left of all cases' time.
clip() {
  local left=$((end_s - SECONDS))
  echo $(($1 < left ? $1 : left > 0 ? left : 0))
}

emit() { printf '%s\n' "$1" | tee -a "$file"; }

# number PATTERN: the number in front of " test" in the line of the last run's output that matches.
number() { sed -n "s/^\[ *$1 *\] \([0-9]*\) test.*/\1/p" "$temporary/output" | tail -n 1; }

# tests CASE LIMIT FILTER [PROGRAM...]: the tests of gpu_test that match, under PROGRAM where there is one.
tests() {
  local name=$1 limit filter=$3 status=0 start=$SECONDS passed failed skipped
  limit=$(clip "$2")
  shift 3
  : >"$temporary/output"
  # A limit of 0 would be none.
  if [ "$limit" = 0 ]; then
    status=124
  else
    timeout -k 5 "$limit" "$@" "$here/gpu_test" --gtest_filter="$filter" >"$temporary/output" 2>&1 || status=$?
  fi
  passed=$(number PASSED) failed=$(number FAILED) skipped=$(number SKIPPED)
  # A case without a test that passed has shown nothing.
  [ "$status" != 0 ] || [ "${passed:-0}" -gt 0 ] || status=1
  emit "{\"case\":\"$name\",\"passed\":${passed:-0},\"failed\":${failed:-0},\"skipped\":${skipped:-0},\"seconds\":$((
    SECONDS - start)),\"limit_s\":$limit,\"status\":$status}"
  [ "$status" = 0 ] && return
  bad=1
  { echo "== $name"; tail -n 200 "$temporary/output"; } >>"$log"
}

# rows CASE LIMIT FLAG...: the rows of `sluice bench device`, and a line about the run.
rows() {
  local name=$1 limit status=0 start=$SECONDS
  limit=$(clip "$2")
  shift 2
  : >"$temporary/output"
  : >"$temporary/rows"
  if [ "$limit" = 0 ]; then
    status=124
  else
    timeout -k 5 "$limit" "$here/sluice" bench device --device cuda --json "$@" 2>"$temporary/output" |
      tee -a "$file" "$temporary/rows" || status=$?
  fi
  # A run without a row has shown nothing.
  [ "$status" != 0 ] || [ -s "$temporary/rows" ] || status=1
  if [ "$status" = 0 ] && grep '"reached":false' "$temporary/rows" >"$temporary/output"; then status=1; fi
  emit "{\"case\":\"$name\",\"seconds\":$((SECONDS - start)),\"limit_s\":$limit,\"status\":$status}"
  [ "$status" = 0 ] && return
  bad=1
  { echo "== $name"; tail -n 50 "$temporary/output"; } >>"$log"
}

# leave_out CASE WHY: a line about a case that did not run.
leave_out() { emit "{\"case\":\"$1\",\"left_out\":\"$2\"}"; }

facts() {
  local card commit
  card=$(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
  commit=$(cat "$here/COMMIT" 2>/dev/null || git -C "$here" rev-parse HEAD 2>/dev/null)
  emit "{\"case\":\"machine\",\"date\":\"$(date -u +%F)\",\"gpu\":\"$card\",\"kernel\":\"$(uname -r)\",\"commit\":\"$commit\"}"
}

# A truth that ends the context needs a process of its own.
fatal_truths() {
  local suite
  suite=$(timeout 20 "$here/gpu_test" --gtest_list_tests 2>/dev/null | sed -n 's/^\(Gpu\/CudaFatalTruthTest\.\).*/\1/p')
  # Tests are indented; "Running main()" is not.
  timeout 20 "$here/gpu_test" --gtest_filter='Gpu/CudaFatalTruthTest.*' --gtest_list_tests 2>/dev/null |
    sed -n "s|^  \([^ ]*\).*|$suite\1|p"
}

# A kernel that is loaded on its first launch waits for the kernels that run: a gate would never open.
export CUDA_MODULE_LOADING=EAGER

# Why there is nothing to check here; empty where there is a GPU.
reason() {
  [ -x "$here/gpu_test" ] || { echo "gpu_test is not beside it; unpack what scripts/gpu_bundle.sh packs"; return; }
  timeout 20 "$here/gpu_test" --gtest_filter='GpuTest.*' --gtest_list_tests >/dev/null 2>&1 ||
    { echo "gpu_test does not start here"; return; }
  [ -n "$(fatal_truths)" ] && return
  timeout 20 "$here/gpu_test" --gtest_filter='GpuTest.ACaptured*' --gtest_brief=1 2>&1 | grep -A 1 ': Skipped$' | tail -n 1
}
why=$(reason)
if [ -n "$why" ]; then
  echo "gpu_check.sh: $why" >&2
  exit 2
fi

facts
# Mappings that stay rest on this. If it fails, hbm is to be LeftMapping::kUntilTaken (Backends::MakeTiers).
tests addresses 10 'Gpu/CudaTruthTest.*Address*OfAFrame*:Gpu/CudaTruthTest.AFrameHasTwoAddressesAtOnce*'
tests truths 60 'Gpu/CudaTruthTest.*'
tests contract 60 'Gpu/DeviceContractTest.*'
tests engine 60 'GpuTest.*'
rows rates 60 --quick --weights 1GiB
rows page-in 20 --case 'page-in/*' --page 2MiB
rows weights 40 --case weights --rounds 3 --hbm 2GiB --weights 12GiB --page 16MiB
for test in $(fatal_truths); do tests "fatal truth ${test##*CudaFatalTruthTest.}" 10 "$test"; done
if [ -n "$directory" ]; then
  rows nvme 40 --quick --dir "$directory" --case 'in/*'
else
  leave_out nvme "no --dir"
fi
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
if [ -n "$sanitizer" ]; then
  # Some tests make calls that the driver is to refuse.
  tests memcheck 60 'Gpu/DeviceContractTest.BytesGoIn*:Gpu/DeviceContractTest.A*' \
    "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9
else
  leave_out memcheck "no compute-sanitizer"
fi
exit "$bad"
