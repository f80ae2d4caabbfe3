#!/bin/bash
# Everything that a change must pass: format, vet, staticcheck, and all tests under
# the race detector, in this module and in those nested in it. FLAGS are passed to go test; with ANALYSE=no there are only tests.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that is known to work with the Go in go.mod. It is installed once: "go run" of a version asks the proxy each time.
staticcheck=v0.8.2

# The newest release of Go; the tests run with the one before it, which go.mod names, or with a later one.
newest=go1.27.1

# So many packages of a module at once: most tests wait most of the time. With one the other modules come after it; with
# more, beside it.
parallel=${P:-2}
limit=${TIMEOUT:-12m}
flags=${FLAGS:-}

# The servers keep their data in memory where there is room for it: a disk that others use too may stand still for
# seconds, in which no server answers.
if [ -z "${LOCKER_SERVERS_DIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 6000000 ]; then
	export LOCKER_SERVERS_DIR=/dev/shm
fi

# A program with the race detector waits a second before it ends, in case another goroutine is in a race just then: each package, and
# each process that a test starts.
export GORACE="${GORACE:-} atexit_sleep_ms=100"

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

# What runs no test gives way to the tests, which mostly wait, and is told at the end.
analyse() {
	local mod dir tools
	tools=${XDG_CACHE_HOME:-$HOME/.cache}/locker/staticcheck-$staticcheck-$(go env GOVERSION)
	[ -x "$tools/staticcheck" ] || GOBIN=$tools go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck"
	for mod in $modules; do
		dir=$(dirname "$mod")
		step "vet $dir"
		go -C "$dir" vet -tags browser,consul ./... # with the tests that other targets run
		step "staticcheck $dir"
		(cd "$dir" && "$tools/staticcheck" ./...)
	done
	step "vet . for another system"
	GOOS=darwin go vet ./...
}

# tests DIR PARALLEL FIRST... runs the tests of a module, those of the packages named first ahead of the others.
tests() {
	step "test $1"
	go -C "$1" test -race -vet=off -ldflags=-w -p "$2" -timeout "$limit" $flags "${@:3}" ./...
}

# newer compiles all with the newest Go, and runs with it what depends on Go more than on a client library: the core, and the backends
# without servers.
newer() {
	if ! GOTOOLCHAIN=$newest go version >/dev/null 2>&1; then
		step "not done: vet and test with $newest, which cannot be downloaded"
		return
	fi
	step "vet with $newest, and test the core and the backends without servers"
	GOTOOLCHAIN=$newest scripts/each.sh vet &&
		GOTOOLCHAIN=$newest go test -vet=off -ldflags=-w -p 1 -short . ./driver ./memory ./file ./conformance ./redlock
}

# others runs what else there is, one package at a time, all of it even if something fails.
others() {
	local mod ok=yes
	for mod in $modules; do
		[ "$mod" = go.mod ] || tests "$(dirname "$mod")" 1 || ok=no
	done
	newer || ok=no
	[ $ok = yes ]
}

out=$(mktemp -d)
set -m # process groups of their own, so that nothing of them outlives this script
analyst=
if [ "${ANALYSE:-yes}" = yes ]; then
	(set -e; renice -n 19 -p $BASHPID >/dev/null; analyse) >"$out/analysis" 2>&1 &
	analyst=$!
fi
tester=
if [ "$parallel" -gt 1 ]; then
	(set -e; others) >"$out/others" 2>&1 &
	tester=$!
fi
set +m
trap 'kill -- ${analyst:+-$analyst} ${tester:+-$tester} 2>/dev/null || true; rm -rf "$out"' EXIT

ok=yes
# What takes longest begins first, so that none of it is alone at the end.
tests . "$parallel" ./redlock ./conformance ./etcd ./zookeeper ./redis ./internal/faults || ok=no
if [ -n "$tester" ]; then
	wait $tester || ok=no
	cat "$out/others"
else
	others || ok=no
fi
if [ -n "$analyst" ]; then
	wait $analyst || ok=no
	grep -v '^go: downloading' "$out/analysis" || true
fi
if [ $ok = no ]; then
	step "something has failed: see FAIL above"
	exit 1
fi
