#!/usr/bin/env bash
# Compares policies by short runs of `sluice train` in alternation (A, B, C, A, B, C, ...), so that what the machine
# does meanwhile meets all alike.
#
#   scripts/compare_policies.sh [--policies "NAME ..."] [--rounds N] [--config FILE] [--sluice FILE] [OPTION ...]
#
# --policies  names as of scheduler.policy (docs/policies.md), the first one is the measure; "planned lru min"
# --rounds    runs of each policy; 3
# --config    configs/train-gpt.toml
# --sluice    the command; build/release/bin/sluice
# OPTION      goes to each `sluice train` as it is: --set train.steps=20 (10 without), --text FILE, ...
#
# Prints a row per policy: the median step, its ratio to the first policy's (the median over rounds, each round
# compared with itself), the smallest and the largest ratio of a round, and the share of stalls. Exit 1 when losses
# differ, which no policy may cause; 2 when an option is wrong; otherwise the exit code of the run that failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  local code=$1
  shift
  printf 'compare_policies: %s\n' "$*" >&2
  exit "$code"
}

policies="planned lru min"
rounds=3
config=$root/configs/train-gpt.toml
sluice=$root/build/release/bin/sluice
options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      sed -n '2,/^set /{s/^# \{0,1\}//;/^set /!p}' "$0"
      exit 0
      ;;
    --policies | --rounds | --config | --sluice)
      [ $# -gt 1 ] || fail 2 "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    --policies=* | --rounds=* | --config=* | --sluice=*)
      word=${1#--}
      declare "${word%%=*}=${word#*=}"
      ;;
    --json | --json=*) fail 2 "--json: every run has it already; leave it out" ;;
    *) options+=("$1") ;;
  esac
  shift
done
read -ra names <<<"$policies"
[ ${#names[@]} -gt 0 ] || fail 2 "--policies is empty; name policies, for example \"planned lru\""
twice=$(printf '%s\n' "${names[@]}" | sort | uniq -d | head -n 1)
[ -z "$twice" ] || fail 2 "--policies: $twice is named twice"
[[ $rounds =~ ^[1-9][0-9]{0,3}$ ]] || fail 2 "--rounds is \"$rounds\"; allowed are 1 to 9999"
[ -r "$config" ] || fail 2 "--config: $config cannot be read; name a TOML file, for example configs/train-gpt.toml"
[ -f "$sluice" ] && [ -x "$sluice" ] || fail 2 "$sluice is no program; build it with scripts/demo.sh, or name it with --sluice"

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
for ((round = 1; round <= rounds; ++round)); do
  for policy in "${names[@]}"; do
    printf 'round %d of %d: %s\n' "$round" "$rounds" "$policy" >&2
    status=0
    "$sluice" train --config "$config" --json --set train.steps=10 "${options[@]}" --set "scheduler.policy=$policy" \
      >"$temporary/run" 2>"$temporary/errors" </dev/null || status=$?
    if [ "$status" != 0 ]; then
      tail -n 5 "$temporary/errors" >&2
      fail "$status" "the run under $policy failed"
    fi
    printf '%s %s\n' "$policy" "$(cat "$temporary/run")" >>"$temporary/runs"
  done
done

python3 - "$temporary/runs" <<'END'
import json, statistics, sys

runs = {}
for line in open(sys.argv[1]):
    policy, text = line.split(" ", 1)
    runs.setdefault(policy, []).append(json.loads(text))
first = next(iter(runs.values()))

print("policy              step ms   ratio    least     most   stalls")
for policy, rounds in runs.items():
    ratios = [mine["step_ms_median"] / other["step_ms_median"] for mine, other in zip(rounds, first)]
    print(f"{policy:<16} {statistics.median(run['step_ms_median'] for run in rounds):>10.1f} "
          f"{statistics.median(ratios):>7.3f} {min(ratios):>8.3f} {max(ratios):>8.3f} "
          f"{100 * statistics.median(run['stall_fraction'] for run in rounds):>6.1f} %")

for policy, rounds in runs.items():
    for field in ("loss_first", "loss_last", "val_loss"):
        wrong = [run[field] for run in rounds if run[field] != first[0][field]]
        if wrong:
            print(f"compare_policies: {field} is {first[0][field]}, under {policy} {wrong[0]}", file=sys.stderr)
            sys.exit(1)
END
