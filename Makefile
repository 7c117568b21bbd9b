# MediaRelay: every command that the README names. Each installs what it needs on a bare Debian 12 with Swift.

SWIFT ?= swift
PORT ?= 8080
MEDIA_PORT ?= 40000

.PHONY: run build test test-unit test-interop test-load test-attack fuzz coverage mutate sbom soak histories simulate attack faults bench bench-quick bench-ring lab deb deb-check deb-test format clean packages

## Build, start the relay and the signaling server of examples/signaling: http://127.0.0.1:8080/ (LAN=1: HTTPS, for a phone).
run: build
	scripts/run.sh

## The release binary: .build/release/media-relay.
build: packages
	$(SWIFT) build -c release --product media-relay

## Everything: unit, engine, simulation, loopback in debug and release, then calls between real clients.
test: packages
	scripts/test.sh all

test-unit: packages
	scripts/test.sh unit

test-interop: packages
	scripts/test.sh interop

## Calls, crossings, kills and memory with real sockets, threads and processes, in their short forms.
test-load: packages
	scripts/test.sh load

## The attack suite's short form and the faults.
test-attack: packages
	scripts/test.sh attack

## The catalogue of attacks against a relay with a live call, floods of a million datagrams each (root). SHORT=1: of 20,000. ONLY=T10: that
## entry. GUARD=all or a name: with relays in which that guard is switched off, which the suite must notice. FOREIGN=1: what
## Debian's Janus and rtpengine make of the same attacks (apt install janus rtpengine-daemon).
attack: build python
	.venv/bin/python $(if $(FOREIGN),Tests/attack/foreign.py,Tests/attack/attack.py) $(if $(SHORT),--short) $(foreach T,$(ONLY),--only $(T)) $(if $(GUARD),--guard $(GUARD))

## Faults of disk, clock, network, processes and neighbours under a live call (root). ONLY=disk-full: that one.
faults: build python
	.venv/bin/python Tests/attack/faults.py $(foreach T,$(ONLY),--only $(T))

.PHONY: python
python:
	scripts/install-packages.sh interop
	@[ -x .venv/bin/python ] || python3 -m venv .venv
	@.venv/bin/python -m pip install -q --disable-pip-version-check -r Tests/interop/requirements.txt

## MINUTES=20 (1440: a day): mixed calls over a bad network, then slopes of memory, descriptors and threads, and what must stay 0; plots in
## bench/out/soak/report.html. Without MINUTES the load program's long forms by count, in some 30 min (SCALE=0.1: a tenth of the
## counts; SCENARIOS=kill9: that one). SEED=N.
SCALE ?= 1
SEED ?= 1
SCENARIOS ?= all
soak: build
	$(SWIFT) build -c release --product RelayLoad
	$(if $(filter command environment,$(word 1,$(origin MINUTES))),bench/soak.py --minutes $(MINUTES) --seed $(SEED),\
		.build/release/RelayLoad $(SCENARIOS) --scale $(SCALE) --seed $(SEED) $(if $(JSON),--json))

## Every parser and state machine under libFuzzer, MINUTES each (TARGETS=stun,sdp: those; ASAN=1: with AddressSanitizer; JOBS=1:
## one at a time).
MINUTES ?= 1
fuzz: packages
	scripts/fuzz.py --minutes $(MINUTES) $(if $(TARGETS),--targets $(TARGETS)) \
		$(if $(ASAN),--asan) $(if $(JOBS),--jobs $(JOBS))

## How many lines of RTPCore and RelayCore the tests run, file by file; fails below LEAST per cent of either.
LEAST ?= 95
coverage: packages
	scripts/coverage.py --least $(LEAST)

## Every comparison by which RTPCore's parsers bound their reading, changed by one or turned round: which changes no test notices.
## ONLY=SDP: those of that folder or file.
mutate: packages
	scripts/mutate.py $(if $(ONLY),--only $(ONLY))

## The software bill of materials of the release binary: CycloneDX JSON in OUT.
OUT ?= .build/media-relay.cdx.json
sbom: build
	scripts/sbom.py --out $(OUT)

## Random histories of calls against the conductor, in release: HISTORIES=1000000 by default, from SEED on.
histories: packages
	HISTORIES=$(or $(HISTORIES),1000000) SEED=$(SEED) $(SWIFT) test -c release --scratch-path .build/testing \
		-Xswiftc -enable-testing --filter HistoryTests

## The whole relay in virtual time, which is killed, cut and filled up: SEEDS seeds of half a minute each, or SEED=7 told move by move.
## LONG=1: twenty minutes with hundreds of clients each (SEEDS=10 by then).
simulate: packages
	$(SWIFT) build -c release --product simulate
	.build/release/simulate $(if $(LONG),--long) \
		$(if $(filter file,$(origin SEED)),--seeds $(or $(SEEDS),$(if $(LONG),10,1000)),--seed $(SEED) $(if $(SEEDS),--seeds $(SEEDS)))

## The relay beside the limit, in some 15 min: a table of targets, bench/out/report.html, a line of bench/history.jsonl. Wants the
## machine for itself. ONLY=cost: that step; JSON=1: lines of JSON. bench-quick: the forwarding step and one rate.
BENCH = @for product in media-relay RelayBench RelayLoad RelayLimit; do \
	$(SWIFT) build -c release --product $$product $(if $(JSON),>/dev/null 2>&1) || exit 1; done
bench: packages
	$(BENCH)
	@bench/bench.py $(if $(JSON),--json) $(foreach step,$(ONLY),--only $(step))

bench-quick: packages
	$(BENCH)
	@bench/bench.py --quick $(if $(JSON),--json)

## How soon both sides hear and see each other after the answer: Chromium and wrtc at 50 ms one way (root).
bench-ring: build python
	.venv/bin/python bench/ring_latency.py

## Calls of real clients over emulated networks, through the relay and without it: a table, plots in bench/out/lab and which targets
## hold, in some 30 min (root). PROFILES=loss-5,step (group: the room of eight) and CLIENTS=wrtc: those; SECONDS=20: shorter; DOCS=1: writes docs/quality.md too.
lab: build python
	$(SWIFT) build -c release --product RelayLoad
	$(SWIFT) build -c release --product RelayLimit
	.venv/bin/python Tests/lab/lab.py $(if $(PROFILES),--profiles $(PROFILES)) $(if $(CLIENTS),--clients $(CLIENTS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(DOCS),--docs)

## dist/media-relay_VERSION_ARCHITECTURE.deb. deb-check: built twice, must be the same bytes. deb-test: tried in a chroot with nothing but Debian (root).
deb:
	scripts/install-packages.sh deb
	scripts/deb.py

deb-check:
	scripts/install-packages.sh deb
	scripts/deb.py --check

deb-test: deb python
	scripts/install-packages.sh deb-test
	.venv/bin/python Tests/packaging/deb.py

packages:
	@scripts/install-packages.sh build

format:
	$(SWIFT) format lint --strict --recursive Sources Tests bench

clean:
	rm -rf .build bench/out dist
