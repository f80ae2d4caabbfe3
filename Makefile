# make test     everything that a change must pass (installs what is missing)
# make compare  the comparison with other libraries; ARGS="..." is passed on
# make short    the tests that need no server
# The others are parts of these, or take longer.

SHELL := /bin/bash
RACE ?= -race

.PHONY: setup test soak short bench compare figures faults conformance consul browser demo demo-test

setup:
	@scripts/setup.sh

test: setup
	@scripts/test.sh

short: # what takes longest begins first
	@FIRST="./file ./cmd/locker" scripts/each.sh test -vet=off -p 6 -short $(ARGS)

bench: setup
	@scripts/each.sh test -run '^$$' -bench . -benchmem $(ARGS)

# Without root or network it goes on with what is there, and says what it left out.
compare:
	@scripts/setup.sh || echo "compare: going on with what is there"
	go -C benchmarks run ./compare $(ARGS)

# The tables and the plots in docs/comparison.md, from the last comparison. The first of each is there if delay was measured.
figures:
	go -C benchmarks run ./compare -from results/report.json -out none -page ../docs/comparison.md

# All tests twenty times on a machine that is kept busy; RUNS, SIDE and LOAD say how often and how busy.
soak: setup
	@scripts/soak.sh

# Every fault in its full length; make test runs a part of them, in a short form.
faults: setup
	LOCKER_FAULTS=full go test -v -timeout 120m $(ARGS) ./internal/faults/...
	LOCKER_FAULTS=full go -C postgres test -v -timeout 30m -run 'TestRows|TestCampaign' $(ARGS) ./...
	LOCKER_FAULTS=full go -C mysql test -v -timeout 30m -run 'TestRows|TestCampaign' $(ARGS) ./...

# The one suite against every form of every backend; make test runs a part of it on some.
conformance: setup
	LOCKER_CONFORMANCE=full scripts/each.sh test $(RACE) -timeout 30m -run Conformance $(ARGS)

# The migration from Consul's lock, with a Consul that it builds first. Not part of make test.
consul:
	@scripts/consul.sh $(RACE) $(ARGS)

# The dashboard in a real browser: needs chromium, and fails without. Not part of make test.
browser:
	go test -tags browser -count=1 -run Browser $(ARGS) ./dashboard

# The page that shows what happens when a lock is lost.
demo:
	demo/build.sh demo/site
	@echo "to open it: go -C demo run ./serve"

# The page in Chromium; make test builds it and tests what is behind it.
demo-test:
	@command -v chromium >/dev/null || apt-get -qq -y install --no-install-recommends chromium || echo "demo-test: chromium is missing"
	go -C demo test $(RACE) -tags browser -timeout 10m $(ARGS) ./...
