#!/bin/bash
# Runs all tests RUNS times (20) beside LOAD processes (14) that use the processors without a pause: two cores
# then have a load of 16 and more. It ends with status 1 if a test failed in any run, and says where the output of those runs is.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-20}
load=${LOAD:-14}

logs=$(mktemp -d)
set -m # a process group for each, so that nothing outlives this script
hogs=()
runner=
trap 'kill -- ${hogs[@]/#/-} ${runner:+-$runner} 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for ((i = 0; i < load; i++)); do
	(while :; do :; done) &
	hogs+=($!)
done

red=0
for ((i = 1; i <= runs; i++)); do
	log=$logs/run-$i
	begin=$SECONDS
	FLAGS="-count=1 ${FLAGS:-}" TIMEOUT=${TIMEOUT:-90m} scripts/test.sh >"$log" 2>&1 </dev/null &
	runner=$!
	result=passed
	wait $runner || { result=FAILED; red=$((red + 1)); }
	runner=
	echo "run $i of $runs: $result after $((SECONDS - begin)) s, at a load of $(cut -d' ' -f2 /proc/loadavg)"
	if [ $result = FAILED ]; then grep -E '^(--- FAIL|FAIL|panic:)' "$log" || true; else rm "$log"; fi
done
echo "$((runs - red)) of $runs runs passed"
if [ $red -gt 0 ]; then
	echo "their output: $logs"
	exit 1
fi
rmdir "$logs"
