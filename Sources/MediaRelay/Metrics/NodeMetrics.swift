import RTPCore
import RelayCore
import RelayHTTP

/// The node's numbers in Prometheus' text format and for `GET /v1/node`.
package enum NodeMetrics {
    package static func text(
        _ status: ControlStatus, http: HTTPCounters, measures: NodeMeasures, webhooks: [WebhookStatus] = [],
        newestEvent: UInt64 = 0
    ) -> String {
        var text = MetricsText()
        text.add(.build, [([Version.text], 1)])
        text.add(.ready, status.isReady ? 1 : 0)
        text.add(.draining, status.isDraining ? 1 : 0)
        let counts = status.counts
        text.add(
            .rooms, [(["initiated"], Double(counts.initiatedRooms)), (["ongoing"], Double(counts.ongoingRooms))])
        text.add(
            .participants,
            [
                (["connecting"], Double(counts.connecting)), (["prepared"], Double(counts.prepared)),
                (["joined"], Double(counts.joined)),
            ])
        text.add(.roomsEnded, RoomOutcome.allCases.map { ([$0.rawValue], Double(measures.ended($0))) })
        text.add(.decisions, status.turns)
        text.add(.events, status.events)
        text.add(.uncommitted, status.uncommitted)
        text.add(.eventLag, measures.eventLag)
        text.add(.setup, [([], measures.setup)])
        text.add(.join, [([], measures.gate)])
        text.add(.firstMedia, [(["audio"], measures.firstAudio), (["video"], measures.firstVideo)])
        text.add(.loss, [(["up"], measures.up.loss), (["down"], measures.down.loss)])
        text.add(.jitter, [(["up"], measures.up.jitter), (["down"], measures.down.jitter)])
        text.add(.roundTrip, [([], measures.roundTrip)])
        text.add(.commit, [([], measures.commit)])
        text.add(.stored, [([], measures.stored)])
        self.http(http, &text)
        self.webhooks(webhooks, newestEvent: newestEvent, &text)
        workers(status, &text)
        admission(status, &text)
        ProcessFacts.now().write(to: &text)
        return text.text
    }

    private static func http(_ counters: HTTPCounters, _ text: inout MetricsText) {
        text.add(.httpConnections, counters.openConnections)
        text.add(.httpStreams, counters.openStreams)
        text.add(.httpInFlight, counters.requestsInFlight)
        text.add(.httpRequests, counters.requests)
        text.add(
            .httpRefused,
            [
                (["connections"], Double(counters.refusedConnections)), (["form"], Double(counters.refusedRequests)),
                (["overload"], Double(counters.overloads)), (["timeout"], Double(counters.timeouts)),
                (["stream-overflow"], Double(counters.streamOverflows)), (["tls"], Double(counters.tlsFailures)),
                (["answer"], Double(counters.faultyResponses)),
            ])
    }

    private static func webhooks(_ statuses: [WebhookStatus], newestEvent: UInt64, _ text: inout MetricsText) {
        func add(_ metric: Metric, _ value: (WebhookStatus) -> UInt64) {
            text.add(metric, statuses.map { ([$0.name], Double(value($0))) })
        }
        add(.webhookDelivered) { $0.delivered }
        add(.webhookFailed) { $0.failed }
        add(.webhookTruncated) { $0.truncated }
        add(.webhookLag) { newestEvent - min(newestEvent, $0.cursor) }
        add(.webhookArrears) { UInt64($0.arrears) }
        add(.webhookInFlight) { UInt64($0.inFlight) }
        text.add(
            .webhookState,
            statuses.flatMap { status in
                WebhookStatus.State.allCases.map { ([status.name, $0.rawValue], $0 == status.state ? 1 : 0) }
            })
    }

    private static func workers(_ status: ControlStatus, _ text: inout MetricsText) {
        let now = MonotonicClock.now()
        let states = status.workerStates.sorted { $0.key < $1.key }
        text.add(.workers, status.workers)
        text.add(.workerUp, states.compactMap { index, state in state.isConnected.map { (["\(index)"], $0 ? 1 : 0) } })
        text.add(.workerExits, states.map { (["\($0.key)"], Double($0.value.exits)) })
        text.add(
            .workerSilence,
            states.compactMap { index, state in
                state.reportedAt.map { (["\(index)"], Double(max(0, (now - $0).milliseconds)) / 1_000) }
            })
        // A worker of another version may count what this table does not know: that is not shown.
        var samples: [String: [([String], Double)]] = [:]
        for (index, state) in states {
            for counter in state.counters {
                let label = counter.label.isEmpty ? [] : [counter.label]
                samples[counter.name, default: []].append((["\(index)"] + label, Double(counter.value)))
            }
        }
        for metric in Metric.worker {
            let name = String(metric.name.dropFirst("media_relay_worker_".count))
            text.add(
                metric,
                (samples[name] ?? []).compactMap { values, value in
                    values.count == metric.labels.count ? (values, value * metric.scale) : nil
                })
        }
    }

    private static func admission(_ status: ControlStatus, _ text: inout MetricsText) {
        text.add(.sessionsRefused, Refusal.allCases.map { ([$0.rawValue], Double(status.refusals[$0] ?? 0)) })
        func add(_ metric: Metric, _ value: (Refusal?, WorkerAdmission) -> Double) {
            text.add(metric, status.admissions.map { (["\($0.index)"], value($0.refusal, $0.admission)) })
        }
        add(.workerOpen) { refusal, _ in refusal == nil ? 1 : 0 }
        add(.loadCPU) { $1.cpuPercent / 100 }
        add(.loadPackets) { $1.packetsPerSecond.rounded() }
        add(.loadBacklog) { Double($1.backlog.nanoseconds) / 1_000_000_000 }
        add(.loadMemory) { Double($1.residentBytes) }
    }

    static func node(_ status: ControlStatus) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("version", .string(Version.text)), .init("ready", .bool(status.isReady)),
            .init("draining", .bool(status.isDraining)), .init("workers", .integer(Int64(status.workers))),
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
        ]
        if let drain = status.drain { fields.append(.init("drain", .object(ViewJSON.fields(of: drain)))) }
        return .object(fields)
    }
}
