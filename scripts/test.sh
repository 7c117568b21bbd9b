#!/usr/bin/env bash
# Runs the tests and ends with one line for each suite and mode: "N passed, 0 failed".
# Usage: test.sh all|unit|fuzz|instructions|load|attack|interop [arguments of Tests/interop/run.py]
#   unit     every Swift test, in debug and release (MODES=release: in that one only)
#   fuzz     every fuzz target for some seconds, and the crash inputs that are kept (make fuzz runs them longer)
#   instructions  what the release build needs to forward a packet, beside the limit's (callgrind; skipped without valgrind)
#   load     the short forms of the load program: calls, crossings, kills, memory (make soak runs the long ones)
#   attack   the short form of the attack suite, and faults of disk, clock, network and processes (needs root)
#   interop  calls between real clients over the built relay, each in a network namespace of its own (needs root)
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
[ $# -gt 0 ] && shift
swift=${SWIFT:-swift}
logs=.build/logs
mkdir -p "$logs"
summary=()
failed=0

# Runs a command with its output in a file, and tells once a minute that it still runs.
logged() {
  local log=$1 beat code=0
  shift
  (while sleep 60 >/dev/null 2>&1; do echo "   … $(tail -n 1 "$log" | cut -c 1-100)"; done) &
  beat=$!
  "$@" >>"$log" 2>&1 || code=$?
  kill "$beat" 2>/dev/null || true
  wait "$beat" 2>/dev/null || true
  return "$code"
}

note() { summary+=("$1"); echo "$1"; }

# Builds and runs every Swift test in one mode. The long output goes to a file, which is shown when something is wrong.
unit_mode() {
  local mode=$1 log=$logs/unit-$1.log started=$SECONDS
  local options=(-c "$mode")
  # Tests look inside modules, which release allows only when told so. A folder of its own keeps the product's build apart.
  if [ "$mode" = release ]; then options+=(--scratch-path .build/testing -Xswiftc -enable-testing); fi
  echo "== unit tests, $mode: building (log: $log)"
  : >"$log"
  if ! logged "$log" "$swift" build "${options[@]}" --build-tests; then
    tail -n 60 "$log"
    note "unit ($mode): the build failed"
    failed=1
    return
  fi
  echo "== unit tests, $mode: built after $((SECONDS - started)) s, running"
  local code=0
  rm -f "$logs/unit-$mode-swift-testing.xml"
  logged "$log" "$swift" test "${options[@]}" --skip-build --xunit-output "$logs/unit-$mode.xml" || code=$?
  if ! scripts/summarize-tests.py --mode "$mode" --exit-code "$code" --log "$log" "$logs/unit-$mode-swift-testing.xml" |
    tee "$logs/unit-$mode.txt"; then failed=1; fi
  while IFS= read -r line; do summary+=("$line"); done < <(grep -E '[0-9]+ passed, [0-9]+ failed' "$logs/unit-$mode.txt")
}

unit() {
  for mode in ${MODES:-debug release}; do unit_mode "$mode"; done
}

fuzz() {
  local code=0
  scripts/fuzz.py --seconds "${FUZZ_SECONDS:-3}" 2>&1 | tee "$logs/fuzz.txt" || code=$?
  summary+=("$(tail -n 1 "$logs/fuzz.txt")")
  [ "$code" -eq 0 ] || failed=1
}

instructions() {
  local code=0
  echo "== instructions: building the bench"
  : >"$logs/bench-build.log"
  if ! logged "$logs/bench-build.log" "$swift" build -c release --product RelayBench; then
    tail -n 60 "$logs/bench-build.log"
    note "instructions: the build failed"
    failed=1
    return
  fi
  bench/instructions.py 2>&1 | tee "$logs/instructions.txt" || code=$?
  summary+=("$(tail -n 1 "$logs/instructions.txt")")
  [ "$code" -eq 0 ] || failed=1
}

load() {
  local code=0
  echo "== load: building the release binaries"
  : >"$logs/load-build.log"
  if ! logged "$logs/load-build.log" "$swift" build -c release --product media-relay ||
    ! logged "$logs/load-build.log" "$swift" build -c release --product RelayLoad ||
    ! logged "$logs/load-build.log" "$swift" build -c release --product RelayLimit; then
    tail -n 60 "$logs/load-build.log"
    note "load: the build failed"
    failed=1
    return
  fi
  if ! python3 -m unittest discover -s bench -p 'test_*.py' >"$logs/bench-report.log" 2>&1; then
    tail -n 40 "$logs/bench-report.log"
    note "bench: the tests of its report failed"
    failed=1
  fi
  .build/release/RelayLoad all --short --seed "${SEED:-1}" 2>&1 | tee "$logs/load.txt" || code=$?
  summary+=("$(tail -n 1 "$logs/load.txt")")
  [ "$code" -eq 0 ] || failed=1
}

# What tests with real clients need: their Python and the release binary. The argument names the stage.
clients() {
  scripts/install-packages.sh interop
  if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
  .venv/bin/python -m pip install -q --disable-pip-version-check -r Tests/interop/requirements.txt
  echo "== $1: building the release binary"
  : >"$logs/$1-build.log"
  logged "$logs/$1-build.log" "$swift" build -c release --product media-relay && return
  tail -n 60 "$logs/$1-build.log"
  note "$1: the build failed"
  failed=1
  return 1
}

attack() {
  clients attack || return 0
  for program in attack faults; do
    local options=() code=0
    [ "$program" = faults ] || options=(--short)
    .venv/bin/python "Tests/attack/$program.py" ${options[@]+"${options[@]}"} 2>&1 | tee "$logs/$program.txt" || code=$?
    summary+=("$(tail -n 1 "$logs/$program.txt")")
    [ "$code" -eq 0 ] || failed=1
  done
}

interop() {
  clients interop || return 0
  local code=0
  if ! python3 -m unittest discover -s Tests/packaging -p 'test_*.py' >"$logs/packaging.log" 2>&1; then
    tail -n 40 "$logs/packaging.log"
    note "packaging: the tests of deploy/ failed"
    failed=1
  fi
  .venv/bin/python Tests/interop/run.py "$@" 2>&1 | tee "$logs/interop.txt" || code=$?
  summary+=("$(tail -n 1 "$logs/interop.txt")")
  [ "$code" -eq 0 ] || failed=1
}

if ! scripts/openapi.py --check; then
  note "openapi: docs/openapi.yaml differs from the served contract"
  failed=1
fi
if ! scripts/check-docs.py >"$logs/documents.txt"; then
  cat "$logs/documents.txt"
  failed=1
fi
summary+=("$(tail -n 1 "$logs/documents.txt")")
case "$what" in
  all) unit; fuzz; instructions; load; attack; interop "$@" ;;
  unit) unit ;;
  fuzz) fuzz ;;
  instructions) instructions ;;
  load) load ;;
  attack) attack ;;
  interop) interop "$@" ;;
  *) echo "test.sh: all, unit, fuzz, instructions, load, attack or interop, not '$what'" >&2; exit 2 ;;
esac

echo
echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
