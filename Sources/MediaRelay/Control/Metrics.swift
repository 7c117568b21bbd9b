import RTPCore
import RelayCore
import RelayHTTP

/// The node's numbers in Prometheus' text format and for `GET /v1/node`.
enum Metrics {
    static func text(_ status: ControlStatus, http: HTTPCounters, timings: RelayTimings) -> String {
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
        workers(status, &text)
        return text.result
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
