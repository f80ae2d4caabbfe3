#!/bin/bash
# Everything that a change must pass: format, vet, staticcheck, and all tests under
# the race detector, in this module and in those nested in it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that is known to work with the Go in go.mod.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

# One of the big packages at a time: what is tested is timing too, and a JVM that starts
# for one is a pause for another. P=2 make test runs two.
parallel=${P:-1}
limit=${TIMEOUT:-12m}

step() { echo "== $*"; }

modules=$(git ls-files '*go.mod' 2>/dev/null || true)
[ -n "$modules" ] || modules=$(find . -name go.mod -not -path '*/testdata/*')

step gofmt
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	echo "not formatted (gofmt -w):"
	echo "$unformatted"
	exit 1
fi

# What needs no server gives way to the tests, which mostly wait, and is told at the end.
analyse() {
	local mod dir
	for mod in $modules; do
		dir=$(dirname "$mod")
		step "vet $dir"
		go -C "$dir" vet ./...
		step "staticcheck $dir"
		(cd "$dir" && go run $staticcheck ./...)
	done
	step "build . for another system"
	GOOS=darwin go build ./...
}

analysis=$(mktemp)
set -m # a process group of its own, so that nothing of it outlives this script
(renice -n 19 -p $BASHPID >/dev/null; analyse) >"$analysis" 2>&1 &
analyst=$!
set +m
stop() {
	kill -- "-$analyst" 2>/dev/null || true
	rm -f "$analysis"
}
trap stop EXIT

# run DIR PARALLEL PACKAGE... tests packages. What is tested is timing on machines that
# others use too. A package that fails is run once more by itself: what fails twice is
# broken. What failed once is named at the end, so that nobody takes it for passed.
# STRICT=1 forgives nothing.
once=
run() {
	local dir=$1 at_once=$2 log failed
	shift 2
	[ $# -gt 0 ] || return 0
	log=$(mktemp)
	if ! go -C "$dir" test -race -p "$at_once" -timeout "$limit" "$@" 2>&1 | tee "$log"; then
		[ -z "${STRICT:-}" ] || exit 1
		failed=$(awk '$1 == "FAIL" && $2 ~ /[.]/ && !/build failed/ && !/setup failed/ { print $2 }' "$log" | sort -u)
		[ -n "$failed" ] && ! grep -qE '(build|setup) failed' "$log" || exit 1
		for package in $failed; do
			step "once more: $package"
			go -C "$dir" test -race -count=1 -timeout "$limit" "$package"
			once="$once $package"
		done
	fi
	rm -f "$log"
}

# The packages that run the suite on servers, and those that need no more than a part
# of the machine, of which two go side by side.
big='/(etcd|faults|redis|redlock|zookeeper)$'

for mod in $modules; do
	dir=$(dirname "$mod")
	tested=$(go -C "$dir" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
	[ -n "$tested" ] || continue
	step "test $dir"
	go -C "$dir" build -race -o /dev/null ./... # on all cores, before the tests go one by one
	run "$dir" 2 $(grep -vE "$big" <<<"$tested" || true)
	run "$dir" "$parallel" $(grep -E "$big" <<<"$tested" || true)
done
ok=yes
wait $analyst || ok=no
grep -v '^go: downloading' "$analysis" || true
[ -z "$once" ] || step "passed only the second time:$once"
[ $ok = yes ]
