#!/bin/bash
# Builds Consul from its modules, unless that was done before, and runs the test of a migration from its lock. It is the last version
# of which that is possible. Arguments are passed to go test.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.10.12
dir=${XDG_CACHE_HOME:-$HOME/.cache}/locker/consul-$version
if [ ! -x "$dir/consul" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(
		cd "$work"
		export GOFLAGS=-mod=mod GOWORK=off
		go mod init example 2>/dev/null
		go get github.com/hashicorp/consul@$version github.com/hashicorp/consul/api@v1.13.0 github.com/hashicorp/consul/sdk@v0.11.0
		# An old golang.org/x/net refers to what Go no longer lets it.
		go build -ldflags='-s -w -checklinkname=0' -o consul github.com/hashicorp/consul
	)
	mkdir -p "$dir"
	mv "$work/consul" "$dir/consul"
fi
PATH=$dir:$PATH go -C benchmarks/migrate/consul test -tags consul -count=1 "$@" ./...
