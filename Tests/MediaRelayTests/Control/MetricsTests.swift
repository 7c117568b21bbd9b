import Foundation
import MediaRelay
import RTPCore
import RelayCore
import RelayHTTP
import Testing

@Suite struct MetricsTests {
    /// Of a node in which everything is.
    private var text: String {
        var status = ControlStatus()
        status.isReady = true
        status.counts.ongoingRooms = 3
        var worker = WorkerState()
        worker.isConnected = true
        worker.reportedAt = MonotonicClock.now()
        for metric in Metric.worker {
            let name = String(metric.name.dropFirst("media_relay_worker_".count))
            for label in metric.values.isEmpty ? [""] : metric.values {
                worker.counters.append(WorkerCounter(name, label: label, 1_500_000))
            }
        }
        worker.counters.append(WorkerCounter("of_another_version", 1))
        var gone = WorkerState()
        gone.isConnected = false
        status.workerStates = [0: worker, 1: gone]
        status.admissions = [(index: 0, refusal: .cpu, admission: WorkerAdmission())]
        status.refusals = [.cpu: 4]
        var webhook = WebhookStatus(name: "a")
        webhook.state = .down
        webhook.cursor = 4
        return NodeMetrics.text(
            status, http: HTTPCounters(), measures: NodeMeasures(), webhooks: [webhook], newestEvent: 9)
    }

    @Test("every family of the table is told, once, with its help and type, and no other of ours") func families() {
        let lines = text.split(separator: "\n").map(String.init)
        for metric in Metric.all {
            #expect(lines.filter { $0 == "# TYPE \(metric.name) \(metric.kind.rawValue)" }.count == 1, "\(metric.name)")
            #expect(lines.contains("# HELP \(metric.name) \(metric.help)"))
        }
        let names = Set(Metric.all.map(\.name))
        for line in lines where line.hasPrefix("# TYPE media_relay") {
            #expect(names.contains(String(line.split(separator: " ")[2])), "\(line)")
        }
        #expect(!text.contains("of_another_version"))
    }

    @Test("counters end in _total, nothing else does, and units are the base ones") func names() {
        for metric in Metric.all {
            #expect((metric.kind == .counter) == metric.name.hasSuffix("_total"), "\(metric.name)")
            for unit in ["_ms", "_milliseconds", "_microseconds", "_percent", "_kb", "_count", "_sum"] {
                #expect(!metric.name.hasSuffix(unit) && !metric.name.contains(unit + "_"), "\(metric.name)")
            }
            #expect(metric.kind != .histogram || metric.name.hasSuffix("_seconds") || metric.name.hasSuffix("_ratio"))
            #expect(!metric.help.contains("\n") && metric.labels.count <= 2)
        }
        #expect(Set(Metric.all.map(\.name)).count == Metric.all.count)
    }

    @Test("samples have their labels in the table's order, and a worker's whole numbers their unit") func samples() {
        let lines = Set(text.split(separator: "\n").map(String.init))
        for line in [
            #"media_relay_rooms{status="ongoing"} 3"#, #"media_relay_worker_up{worker="0"} 1"#,
            #"media_relay_worker_up{worker="1"} 0"#, #"media_relay_worker_exits_total{worker="1"} 0"#,
            #"media_relay_worker_cpu_seconds_total{worker="0",thread="media"} 1.5"#,
            #"media_relay_worker_drops_total{worker="0",reason="stun-malformed"} 1500000"#,
            #"media_relay_webhook_lag_events{webhook="a"} 5"#, #"media_relay_worker_open{worker="0"} 0"#,
            #"media_relay_sessions_refused_total{reason="cpu"} 4"#,
            #"media_relay_sessions_refused_total{reason="no-worker"} 0"#,
            #"media_relay_webhook_state{webhook="a",state="down"} 1"#,
            #"media_relay_webhook_state{webhook="a",state="up"} 0"#,
            #"media_relay_rooms_ended_total{outcome="node-lost"} 0"#,
            #"media_relay_leg_loss_ratio_bucket{direction="up",le="0.02"} 0"#,
            #"media_relay_leg_loss_ratio_bucket{direction="down",le="+Inf"} 0"#,
            #"media_relay_build_info{version="\#(Version.text)"} 1"#, "process_open_fds",
        ] { #expect(lines.contains(line) || lines.contains { $0.hasPrefix(line + " ") }, "\(line)") }
    }

    @Test("docs/metrics.md is what the code says: media-relay metrics reference > docs/metrics.md")
    func reference() throws {
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("docs/metrics.md")
        #expect(try String(contentsOf: path, encoding: .utf8) == Metric.reference)
    }
}
