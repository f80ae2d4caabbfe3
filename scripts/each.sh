#!/bin/bash
# Runs "go" with these arguments in the root module and in those of the backends that are modules of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
for module in . postgres mysql; do
	go -C "$module" "$@"
done
