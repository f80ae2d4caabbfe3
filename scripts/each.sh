#!/bin/bash
# Runs "go" with these arguments on all packages of the root module and of those backends that are modules of their own. FIRST are
# packages of the root module that are to begin ahead of the others.
set -euo pipefail
cd "$(dirname "$0")/.."
first=${FIRST:-}
for module in . postgres mysql; do
	go -C "$module" "$@" $first ./...
	first=
done
