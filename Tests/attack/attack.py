#!/usr/bin/env python3
"""Runs the network entries of the catalogue against a relay with a live call, and prints what came of each.

Usage: attack.py [--short] [--only T10]… [--guard NAME,…|all] [--list]
  --short   floods of 20,000 datagrams instead of 1,000,000; what belongs to `make test`
  --guard   with a relay in which one guard after the other is off (guards.py): the entries that it protects must fail, and
            with all of them on (none) pass; the last line is "guards: N passed, N failed" then
The last line is "attack: N passed, N failed". Needs root (network namespace, raw sockets) and the clients of Tests/interop.
"""
import argparse
import asyncio
import os
import pathlib
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "Tests/interop")]
sys.dont_write_bytecode = True


def words(attack):
    return attack.__doc__.strip().splitlines()[0]


class Row:
    def __init__(self, entry, attack, seen, faults):
        self.entry, self.attack, self.seen, self.faults = entry, attack, seen, faults

    def line(self):
        seen = self.seen or {}
        verdict = "FAIL" if self.faults else "pass"
        return (f"{verdict} {self.entry.number:5} {words(self.attack)[:78]:78} {seen.get('sent', 0):>8} {seen.get('answered', 0):>7} "
                f"{seen.get('lost', 0):>5} {seen.get('steady', 0) * 1000:>6.1f} {seen.get('gap', 0) * 1000:>7.0f} {seen.get('growth', 0):>+7} "
                f"{seen.get('note', '')}")


HEAD = (f"{'':4} {'':5} {'attack':78} {'sent':>8} {'answer':>7} {'lost':>5} {'p99 of':>6} {'longest':>7} {'memory':>7}\n"
        f"{'':4} {'':5} {'':78} {'':>8} {'bytes':>7} {'':>5} {'gaps':>6} {'gap, ms':>7} {'KiB':>7}")


async def run(arguments):
    from catalogue import CATALOGUE
    from scene import Died, Scene, new_relay
    rows = []
    print(HEAD, flush=True)
    with new_relay() as relay:
        scene = await Scene.start(relay, not arguments.short)
        await asyncio.sleep(10 if scene.is_long else 2.5)
        scene.counters = scene.read_counters()
        now = time.time()
        quiet, scene.quiet = scene.wire.gap(now - 2, now)[0], scene.wire.gaps(now - 8, now)[0]
        for entry in CATALOGUE:
            if arguments.only and entry.number not in arguments.only:
                continue
            for attack in entry.attacks:
                seen, faults = None, []
                try:
                    for attempt in range(2):
                        seen, faults, soft = await scene.trial(attack)
                        # What a busy machine may do to a client is tried once more, and said.
                        if faults or not soft:
                            break
                        if attempt == 0:
                            print(f"once more: {entry.number}: {'; '.join(soft)}", flush=True)
                    faults += soft if not faults else []
                except Died as error:
                    rows.append(Row(entry, attack, seen, [str(error)]))
                    print(rows[-1].line() + f"\n     {error}", flush=True)
                    return rows
                except Exception as error:  # noqa: BLE001 — a failed check of the attack's own
                    traceback.print_exc()
                    faults = [f"{type(error).__name__}: {error}".replace("\n", " ")]
                rows.append(Row(entry, attack, seen, faults))
                print(rows[-1].line(), flush=True)
                for fault in faults:
                    print(f"     {fault}", flush=True)
        print(f"\nWithout an attack the victims' longest gap was {quiet * 1000:.0f} ms, p99 {scene.quiet * 1000:.1f} ms; {len(scene.wire.delays(0, time.time()))} audio packets,"
              f" p99 in the relay {percentile_of(scene) * 1000:.2f} ms.")
        await scene.stop()
    return rows


def percentile_of(scene):
    from wire import percentile
    return percentile(scene.wire.delays(0, time.time()), 0.99)


def print_elsewhere():
    from catalogue import CATALOGUE, check_names, check_table
    print("\nHeld by other tests, or not by an attack:")
    for entry in CATALOGUE:
        if not entry.attacks:
            print(f"     {entry.number:5} {entry.title:32} {entry.reason}: " + "; ".join(name for _, name in entry.tests))
    return [f"the catalogue names a test that is not there: {name}" for name in check_names()] + check_table()


def inside(arguments):
    from run import set_up_network
    set_up_network("lo")
    try:
        rows = asyncio.run(run(arguments))
    except Exception:  # noqa: BLE001 — the scene itself did not come up
        traceback.print_exc()
        rows = []
    # A scene that did not come up is a failure, too.
    count = sum(1 for row in rows if row.faults) + (not rows)
    if arguments.guard:
        code = judge_guard(arguments.guard, rows)
    else:
        missing = print_elsewhere()
        for name in missing:
            print(f"FAIL {name}")
        print(f"attack: {len([row for row in rows if not row.faults])} passed, {count + len(missing)} failed")
        code = 0 if rows and not count and not missing else 1
    # Clients leave threads behind; they are no business of the result.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


NONE = "none"
JUDGED = "judged: "


def judge_guard(name, rows):
    """Every entry that the guard protects must have failed, by its own words; with none off, nothing may."""
    from guards import GUARDS
    failed = {row.entry.number: row.faults[0] for row in reversed(rows) if row.faults}
    wanted = set() if name == NONE else set(GUARDS[name].entries)
    has_noticed = bool(rows) and (wanted <= set(failed) if wanted else not failed)
    said = "; ".join(f"{number}: {failed[number]}" for number in sorted(failed)) or "all pass"
    print(f"{JUDGED}{'noticed' if wanted else 'pass':7} {name:14} {said}" if has_noticed
          else f"{JUDGED}MISSED  {name:14} must fail: {', '.join(sorted(wanted)) or 'nothing'}; {said}")
    return 0 if has_noticed else 1


def command(arguments, *extra):
    """This program again in namespaces of its own."""
    from run import isolation
    options = [*(["--short"] if arguments.short else []), *(word for number in arguments.only for word in ("--only", number))]
    return [*isolation(), sys.executable, str(HERE / "attack.py"), "--inside", *extra, *options]


def with_guards_off(arguments):
    from guards import GUARDS, build
    names = [NONE, *GUARDS] if arguments.guard == "all" else arguments.guard.split(",")
    for name in names:
        if name not in GUARDS and name != NONE:
            sys.exit(f"attack.py: no guard named {name}; there are {', '.join(GUARDS)}, {NONE}, all")
    binary = build()
    table = []
    for name in names:
        print(f"\n== without the guard: {name} ({GUARDS[name].words if name in GUARDS else 'all are on: everything must pass'})", flush=True)
        entries = GUARDS[name].entries if name in GUARDS else sorted({one for guard in GUARDS.values() for one in guard.entries})
        only = argparse.Namespace(short=True, only=arguments.only or entries)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "MEDIA_RELAY": str(binary), "MEDIA_RELAY_GUARD_OFF": name}
        judged = f"MISSED  {name:14} the suite ended without a verdict"
        with subprocess.Popen(command(only, "--guard", name), env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                print(line, end="", flush=True)
                judged = line[len(JUDGED):].rstrip() if line.startswith(JUDGED) else judged
        table.append((name, judged))
    print(f"\n{'verdict':7} {'guard off':14} what failed")
    for _, judged in table:
        print(judged[:240])
    missed = sum(judged.startswith("MISSED") for _, judged in table)
    print(f"guards: {len(table) - missed} passed, {missed} failed")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="T10")
    parser.add_argument("--guard", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true", help="write docs/attacks.md")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list:
        from catalogue import CATALOGUE
        for entry in CATALOGUE:
            print(entry.number, entry.title, "; ".join(map(words, entry.attacks)) or entry.reason)
        return 0
    if arguments.table:
        from catalogue import TABLE, table
        TABLE.write_text(table())
        return 0
    if os.geteuid() != 0:
        sys.exit("attack.py: network namespaces and raw sockets need root")
    if arguments.inside:
        inside(arguments)
    if arguments.guard:
        return with_guards_off(arguments)
    return subprocess.run(command(arguments), env={**os.environ, "PYTHONUNBUFFERED": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
