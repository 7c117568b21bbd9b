"""Debian's Prometheus scrapes a live relay under load, with our rules; everything that alerts and dashboard name is there, and an
alert fires when a worker dies. The log as JSON, and a call's figures over time.
"""
import asyncio
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

from network_change import pair
from relay import ROOT, Relay, check

RULES = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/media-relay.json"
NAME = re.compile(r"\b(?:media_relay|process)_[a-z_]+\b")


class Prometheus:
    """The system's, on the files that we ship, once a second."""

    def __init__(self, folder):
        self.url = "http://127.0.0.1:9090"
        config = (RULES / "prometheus.yml").read_text().replace("interval: 15s", "interval: 1s")
        pathlib.Path(folder, "prometheus.yml").write_text(config)
        pathlib.Path(folder, "alerts.yml").write_text((RULES / "alerts.yml").read_text())
        self.log = open(os.path.join(folder, "log"), "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:9090", "--log.level=warn"],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def ask(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def value(self, expression):
        (found,) = self.query(expression)
        return float(found["value"][1])

    def until(self, what, seconds, condition):
        deadline = time.monotonic() + seconds
        while True:
            check(self.process.poll() is None, "prometheus ended")
            try:
                if found := condition():
                    return found
            except OSError:
                pass
            check(time.monotonic() < deadline, f"not within {seconds} s: {what}")
            time.sleep(0.2)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def families(text):
    """Names as samples have them: of a histogram also those with its endings."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        found.add(name)
        if kind == "histogram":
            found |= {f"{name}_{end}" for end in ("bucket", "sum", "count")}
    return found


def named():
    """Every metric that alerts and dashboard name."""
    expressions = re.findall(r"^\s+(?:expr:.*|- .*|>.*|and .*|sum .*|histogram.*)$", (RULES / "alerts.yml").read_text(), re.MULTILINE)
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        expressions += [target["expr"] for target in panel.get("targets", [])]
    return {name for expression in expressions for name in NAME.findall(expression)}, panels


def check_files(text):
    for command, given in [
        (["promtool", "check", "metrics"], text), (["promtool", "check", "rules", "alerts.yml"], None),
        (["promtool", "check", "config", "prometheus.yml"], None), (["promtool", "test", "rules", "alerts_test.yml"], None),
    ]:
        done = subprocess.run(command, input=given, cwd=RULES, capture_output=True, text=True, timeout=30)
        check(done.returncode == 0 and not (given and done.stderr), f"{command}: {done.stdout[-1500:]}{done.stderr[-1500:]}")


def check_log(path, room):
    """Every line is a record of OpenTelemetry's data model, and the room's are found by its id."""
    records = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line.startswith("{")]
    check(records, "nothing is logged as JSON")
    for record in records:
        check(set(record) == {"timestamp", "severity", "severityNumber", "body", "attributes", "resource"}, f"a record is {record}")
        check(record["severityNumber"] in (5, 9, 13, 17) and isinstance(record["attributes"], dict), f"a record is {record}")
        check(record["resource"]["service.name"] == "media-relay", f"a record is {record}")
    mine = [record for record in records if record["attributes"].get("room.id") == room]
    names = {record["attributes"]["event.name"] for record in mine}
    check({"participant.joined", "room.closed"} <= names, f"of the room is logged: {names}")
    check(any("participant.id" in record["attributes"] for record in mine), "no participant's id is logged")
    text = pathlib.Path(path).read_text()
    check("alice" not in text and "ice-pwd" not in text, "the log names a user or a secret")
    return len(records)


async def load(relay, prometheus):
    """One call over 12 s, so that each leg's first ten seconds are counted."""
    room, clients = await pair(relay)
    began = time.monotonic()
    await asyncio.sleep(12.5)
    rate = await asyncio.to_thread(
        prometheus.value, "sum(rate(media_relay_worker_packets_received_total[5s]))")
    check(rate > 60, f"{rate} packets/s are received of a call")
    series = relay.admin("GET", f"/v1/rooms/{room}/series").expect(200).json["participants"]
    check(len(series) == 2 and all(sum(leg["series"]["uplink"]["packets"]) > 500 for leg in series), f"while it lives: {series}")
    await asyncio.gather(*(client.leave() for client in clients))
    return room, time.monotonic() - began


def watching():
    folder = tempfile.mkdtemp(prefix="prometheus-")
    options = ["--log", "json", "--log-level", "debug", "--webhook", "main=http://127.0.0.1:9/", "--webhook-secret",
               "main=whsec_" + "A" * 42 + "A="]
    with Relay(options=options, admin="127.0.0.1:8081") as relay:
        prometheus = Prometheus(folder)
        try:
            prometheus.until("a scrape", 10, lambda: prometheus.query('up{job="media-relay"} == 1'))
            room, lasted = asyncio.run(load(relay, prometheus))
            check_record(relay, room, lasted)
            text = relay.admin("GET", "/metrics").expect(200).body.decode()
            check_files(text)
            wanted, panels = named()
            check(len(wanted) > 40 and len(panels) > 30, f"{len(wanted)} metrics are named in {len(panels)} panels")
            known = families(text)
            check(wanted <= known, f"named and not told: {wanted - known}")
            for name in sorted(wanted):
                check(prometheus.query(f"count({name})"), f"prometheus has no {name}")
            for panel in panels:
                for target in panel.get("targets", []):
                    expression = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
                    prometheus.query(expression)
            for name in ("leg_loss_ratio_count", "leg_jitter_seconds_count", "leg_round_trip_seconds_count", "setup_seconds_count",
                         "join_seconds_count", "first_media_seconds_count"):
                check(prometheus.value(f"sum(media_relay_{name})") >= 2, f"nothing is counted in {name}")
            check(prometheus.value('media_relay_webhook_state{state="down"}') == 1, "the dead webhook is not down")
            check(not [one for one in prometheus.ask("alerts")["alerts"] if one["state"] == "firing"], "an alert fires in peace")
            (worker,) = relay.worker_pids()
            os.kill(worker, signal.SIGKILL)
            fired = prometheus.until(
                "the alert", 15, lambda: [one for one in prometheus.ask("alerts")["alerts"] if one["state"] == "firing"])
            check([one["labels"]["alertname"] for one in fired] == ["MediaRelayWorkerLost"], f"what fires is {fired}")
            prometheus.until("a new worker", 15, lambda: prometheus.query("media_relay_worker_up == 1"))
            records = check_log(relay.log_path, room)
        finally:
            prometheus.stop()
    return f"{len(known)} names told, {len(wanted)} used by {len(panels)} panels and the alerts; WorkerLost fired; {records} log records"


def check_record(relay, room, lasted):
    deadline = time.monotonic() + 5
    while not (call := relay.admin("GET", f"/v1/calls/{room}").json).get("complete"):
        check(time.monotonic() < deadline, f"the record is not complete: {call}")
        time.sleep(0.05)
    for leg in call["participants"]:
        series = leg["series"]
        spans = series["spanMs"]
        check(len(spans) == 2 and 9_000 <= spans[0] <= 11_500, f"rows span {spans}")
        check(abs(sum(spans) - 1000 * lasted) < 2_500, f"rows span {spans} of a call of {lasted} s")
        for way in ("uplink", "downlink"):
            check(sum(series[way]["packets"]) == leg[way]["packets"], f"{way}: rows have {series[way]['packets']}, all {leg[way]}")
            check(min(series[way]["kbps"]) > 20, f"{way}: {series[way]['kbps']} kbit/s")
