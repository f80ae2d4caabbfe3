#!/bin/sh
# Writes the page to the folder $1, which is made if it is not there: all that a web server needs to show it.
set -eu
mkdir -p "$1"
site=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cp page/* "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$site/"
GOOS=js GOARCH=wasm go build -ldflags='-s -w' -o "$site/demo.wasm" .
