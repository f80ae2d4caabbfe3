#!/bin/bash
# Everything that a change must pass: format, vet, staticcheck, and all tests under
# the race detector, in this module and in those nested in it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that is known to work with the Go in go.mod.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

# So many packages of a module at once, beside those of the nested modules, one at a time: most tests
# wait most of the time.
parallel=${P:-3}
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

# tests DIR PARALLEL runs the tests of a module and notes the packages that fail in $out/failed, a line
# "DIR PACKAGE" for each. It fails if they could not be run.
tests() {
	local dir=$1 at_once=$2 log=$out/$BASHPID failed
	step "test $dir"
	if go -C "$dir" test -race -vet=off -p "$at_once" -timeout "$limit" ./... 2>&1 | tee "$log"; then
		return 0
	fi
	failed=$(awk '$1 == "FAIL" && $2 ~ /[.]/ { print $2 }' "$log" | sort -u)
	[ -n "$failed" ] && ! grep -qE '(build|setup) failed' "$log" || return 1
	for package in $failed; do
		echo "$dir $package" >>"$out/failed"
	done
}

# once_more runs the packages that have failed again, each by itself with nothing beside it: what fails twice is
# broken. What failed once is named, so that nobody takes it for passed. STRICT=1 forgives nothing.
once_more() {
	local dir package
	[ -s "$out/failed" ] || return 0
	if [ -n "${STRICT:-}" ]; then
		step "failed:"
		cat "$out/failed"
		return 1
	fi
	while read -r dir package; do
		step "once more: $package"
		go -C "$dir" test -race -vet=off -count=1 -timeout "$limit" "$package" </dev/null || return 1
	done <"$out/failed"
	step "passed only the second time:"
	cat "$out/failed"
}

# The nested modules, one package at a time.
nested() {
	local mod
	for mod in $modules; do
		[ "$mod" = go.mod ] || tests "$(dirname "$mod")" 1
	done
}

out=$(mktemp -d)
set -m # process groups of their own, so that nothing of them outlives this script
(set -e; renice -n 19 -p $BASHPID >/dev/null; analyse) >"$out/analysis" 2>&1 &
analyst=$!
(set -e; nested) >"$out/nested" 2>&1 &
tester=$!
set +m
trap 'kill -- -$analyst -$tester 2>/dev/null || true; rm -rf "$out"' EXIT

ok=yes
tests . "$parallel" || ok=no
wait $tester || ok=no
cat "$out/nested"
wait $analyst || ok=no
grep -v '^go: downloading' "$out/analysis" || true
once_more || ok=no
[ $ok = yes ]
