import RTPCore
import RelayCore
import RelayHTTP

/// The node's numbers in Prometheus' text format and for `GET /v1/node`.
enum Metrics {
    static func text(
        _ status: ControlStatus, http: HTTPCounters, timings: RelayTimings, webhooks: [WebhookStatus] = [],
        newestEvent: UInt64 = 0
    ) -> String {
        var text = Exposition()
        text.gauge("media_relay_ready", "Whether new rooms are taken.", status.isReady ? 1 : 0)
        text.gauge("media_relay_workers", "Worker processes connected.", status.workers)
        text.family("media_relay_rooms", "gauge", "Rooms by status.")
        text.sample("media_relay_rooms", ["status": "initiated"], UInt64(status.counts.initiatedRooms))
        text.sample("media_relay_rooms", ["status": "ongoing"], UInt64(status.counts.ongoingRooms))
        text.family("media_relay_participants", "gauge", "Participants by state.")
        text.sample("media_relay_participants", ["state": "connecting"], UInt64(status.counts.connecting))
        text.sample("media_relay_participants", ["state": "prepared"], UInt64(status.counts.prepared))
        text.sample("media_relay_participants", ["state": "joined"], UInt64(status.counts.joined))
        text.counter("media_relay_events_total", "Events decided in this life of control.", status.events)
        text.counter("media_relay_decisions_total", "Decisions of the conductor.", status.turns)
        text.gauge("media_relay_uncommitted_decisions", "Decisions that wait for the disk.", Int(status.uncommitted))
        text.gauge("media_relay_http_connections", "Open HTTP connections.", http.openConnections)
        text.gauge("media_relay_http_event_streams", "Open event streams.", http.openStreams)
        text.gauge("media_relay_http_requests_in_flight", "Requests that wait for an answer.", http.requestsInFlight)
        text.histogram(
            "media_relay_commit_seconds", "One transaction of the journal, flushed to disk.", timings.commit.snapshot)
        text.histogram(
            "media_relay_stored_seconds", "From a decision to its being on disk.", timings.stored.snapshot)
        text.histogram(
            "media_relay_gate_seconds", "From a request to join, as read, to the open gate of a prepared participant.",
            timings.gate.snapshot)
        admission(status, &text)
        self.webhooks(webhooks, newestEvent: newestEvent, &text)
        workers(status, &text)
        return text.result
    }

    private static func admission(_ status: ControlStatus, _ text: inout Exposition) {
        text.family("media_relay_sessions_refused_total", "counter", "Sessions answered 503, by what was in the way.")
        for refusal in Refusal.allCases {
            text.sample(
                "media_relay_sessions_refused_total", ["reason": refusal.rawValue], status.refusals[refusal] ?? 0)
        }
        func family(_ name: String, _ help: String, _ value: (Refusal?, WorkerAdmission) -> UInt64) {
            let name = "media_relay_worker_\(name)"
            text.family(name, "gauge", help)
            for (index, refusal, admission) in status.admissions {
                text.sample(name, ["worker": "\(index)"], value(refusal, admission))
            }
        }
        family("open", "Whether a worker takes new sessions.") { refusal, _ in refusal == nil ? 1 : 0 }
        family("load_cpu_percent", "Of a core, by its media loop, in the last second.") {
            UInt64($1.cpuPercent.rounded())
        }
        family("load_packets_per_second", "Datagrams received, in the last second.") {
            UInt64(min($1.packetsPerSecond, 1e15))
        }
        family("load_backlog_ms", "Longest time behind its sockets, in the last second.") {
            UInt64($1.backlog.milliseconds)
        }
        family("load_resident_bytes", "Its own memory.") { $1.residentBytes }
    }

    private static func webhooks(_ statuses: [WebhookStatus], newestEvent: UInt64, _ text: inout Exposition) {
        guard !statuses.isEmpty else { return }
        func family(_ name: String, _ type: String, _ help: String, _ value: (WebhookStatus) -> UInt64) {
            let name = "media_relay_webhook_\(name)"
            text.family(name, type, help)
            for status in statuses { text.sample(name, ["webhook": status.name], value(status)) }
        }
        family("delivered_total", "counter", "Requests answered 2xx.") { $0.delivered }
        family("failed_total", "counter", "Requests that were refused, timed out or did not connect.") { $0.failed }
        family("truncated_total", "counter", "Times that the log no longer had what was owed.") { $0.truncated }
        family("lag_events", "gauge", "Events behind the newest one, rooms in arrears aside.") {
            newestEvent - min(newestEvent, $0.cursor)
        }
        family("arrears", "gauge", "Rooms that are behind the rest.") { UInt64($0.arrears) }
        family("in_flight", "gauge", "Requests that wait for an answer.") { UInt64($0.inFlight) }
        text.family("media_relay_webhook_state", "gauge", "1 for the state that an endpoint is in.")
        for status in statuses {
            for state in WebhookStatus.State.allCases {
                text.sample(
                    "media_relay_webhook_state", ["webhook": status.name, "state": state.rawValue],
                    state == status.state ? 1 : 0)
            }
        }
    }

    private static func workers(_ status: ControlStatus, _ text: inout Exposition) {
        var names: [String] = []
        for counters in status.workerCounters.values {
            for counter in counters where !names.contains(counter.name) { names.append(counter.name) }
        }
        for name in names.sorted() {
            let metric =
                "media_relay_worker_\(name.map { $0.isLetter || $0.isNumber ? $0 : "_" }.reduce("") { $0 + String($1) })"
            text.family(metric, "untyped", "Of each worker process, since it started.")
            for (worker, counters) in status.workerCounters.sorted(by: { $0.key < $1.key }) {
                for counter in counters where counter.name == name {
                    var labels = ["worker": "\(worker)"]
                    if !counter.label.isEmpty { labels["reason"] = counter.label }
                    text.sample(metric, labels, counter.value)
                }
            }
        }
    }

    static func node(_ status: ControlStatus) -> JSONValue {
        .object([
            .init("ready", .bool(status.isReady)), .init("draining", .bool(status.isDraining)),
            .init("workers", .integer(Int64(status.workers))),
            .init(
                "rooms",
                .object([
                    .init("initiated", .integer(Int64(status.counts.initiatedRooms))),
                    .init("ongoing", .integer(Int64(status.counts.ongoingRooms))),
                ])),
            .init(
                "participants",
                .object([
                    .init("connecting", .integer(Int64(status.counts.connecting))),
                    .init("prepared", .integer(Int64(status.counts.prepared))),
                    .init("joined", .integer(Int64(status.counts.joined))),
                ])),
        ])
    }
}

/// Builds the text format: families with help and type, samples with labels.
private struct Exposition {
    private(set) var result = ""

    mutating func family(_ name: String, _ type: String, _ help: String) {
        result += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    mutating func sample(_ name: String, _ labels: [String: String], _ value: UInt64) {
        let text = labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\($0.value)\"" }.joined(separator: ",")
        result += text.isEmpty ? "\(name) \(value)\n" : "\(name){\(text)} \(value)\n"
    }

    mutating func gauge(_ name: String, _ help: String, _ value: Int) {
        family(name, "gauge", help)
        sample(name, [:], UInt64(max(0, value)))
    }

    mutating func histogram(_ name: String, _ help: String, _ histogram: LatencyHistogram.Snapshot) {
        family(name, "histogram", help)
        var total: UInt64 = 0
        for (bound, count) in zip(LatencyHistogram.bounds, histogram.counts) {
            total += count
            sample("\(name)_bucket", ["le": "\(Double(bound) / 1_000_000)"], total)
        }
        sample("\(name)_bucket", ["le": "+Inf"], histogram.count)
        result += "\(name)_sum \(Double(histogram.sum.nanoseconds) / 1_000_000_000)\n"
        sample("\(name)_count", [:], histogram.count)
    }

    mutating func counter(_ name: String, _ help: String, _ value: UInt64) {
        family(name, "counter", help)
        sample(name, [:], value)
    }
}
