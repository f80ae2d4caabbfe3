#!/bin/bash
# Runs all tests, without the static analysis, RUNS times (20), SIDE of the runs (2) at a time, beside LOAD processes (1) that use
# the processors without a pause: two cores then have a load of 16 and more. It ends with status 1 if a test failed in any run, and
# says where the output of those runs is.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-20}
side=${SIDE:-2}
load=${LOAD:-1}

logs=$(mktemp -d)
set -m # a process group for each, so that nothing outlives this script
hogs=()
runners=()
trap 'kill -- ${hogs[@]/#/-} ${runners[@]/#/-} 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for ((i = 0; i < load; i++)); do
	(while :; do :; done) &
	hogs+=($!)
done

# run N makes the run of that number; it returns 1 if a test failed.
run() {
	local log=$logs/run-$1 begin=$SECONDS result=passed
	ANALYSE=no FLAGS="-count=1 ${FLAGS:-}" TIMEOUT=${TIMEOUT:-90m} scripts/test.sh >"$log" 2>&1 </dev/null || result=FAILED
	echo "run $1 of $runs: $result after $((SECONDS - begin)) s, at a load of $(cut -d' ' -f2 /proc/loadavg)"
	if [ $result = FAILED ]; then
		grep -E '^(--- FAIL|FAIL|panic:)' "$log" || true
		return 1
	fi
	rm "$log"
}

red=0
# await_one waits until a run has ended.
await_one() {
	local ended i
	wait -n -p ended "${runners[@]}" || red=$((red + 1))
	for i in "${!runners[@]}"; do
		[ "${runners[i]}" != "$ended" ] || unset "runners[i]"
	done
}
for ((i = 1; i <= runs; i++)); do
	[ ${#runners[@]} -lt "$side" ] || await_one
	run $i &
	runners+=($!)
done
while [ ${#runners[@]} -gt 0 ]; do await_one; done

echo "$((runs - red)) of $runs runs passed"
if [ $red -gt 0 ]; then
	echo "their output: $logs"
	exit 1
fi
rmdir "$logs"
