# MediaRelay: every command that the README names. Each installs what it needs on a bare Debian 12 with Swift.

SWIFT ?= swift
PORT ?= 8080
MEDIA_PORT ?= 40000

.PHONY: run build test test-unit test-interop bench bench-quick format clean packages

## Build, start the relay with its demo page on http://127.0.0.1:8080/ (LAN=1: HTTPS, for a phone on the same network).
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

## The product beside the C limit loop, in one process.
bench: packages
	$(SWIFT) build -c release --product RelayBench
	.build/release/RelayBench $(if $(JSON),--json)

bench-quick: packages
	@$(SWIFT) build -c release --product RelayBench $(if $(JSON),>/dev/null 2>&1)
	@.build/release/RelayBench --quick $(if $(JSON),--json)

packages:
	@scripts/install-packages.sh build

format:
	$(SWIFT) format lint --strict --recursive Sources Tests bench

clean:
	rm -rf .build bench/out
