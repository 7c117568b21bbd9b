import CLinuxIO
import RelayCore

// The worker's counters as control shows them on /metrics: names as in `Metric.worker`, whose test compares them.

extension WorkerCounter {
    /// Everything that a worker counts, engine and sockets and handshaker.
    static func all(
        engine: EngineCounters, reader: DatagramReader, writer: DatagramWriter, streams: MediaStreams,
        turns: TurnLengths, handshakes: HandshakeCounters, refusedPosts: UInt64, keptNews: Int, droppedNews: UInt64,
        transports: Int, usage: WorkerUsage, recorder: RecorderThread.Counters
    ) -> [WorkerCounter] {
        var counters = [
            WorkerCounter("transports", UInt64(transports)),
            WorkerCounter("cpu_seconds_total", label: "media", usage.mediaMicroseconds),
            WorkerCounter("cpu_seconds_total", label: "other", usage.otherMicroseconds),
            WorkerCounter("receive_queue_bytes", usage.queuedBytes),
            WorkerCounter("receive_queue_limit_bytes", usage.queueLimitBytes),
            WorkerCounter("datagrams_received_total", reader.datagramCount),
            WorkerCounter("receive_batches_total", reader.batchCount),
            WorkerCounter("receive_overflows_total", reader.overflowCount),
            WorkerCounter("datagrams_sent_total", writer.datagramCount),
            WorkerCounter("sent_bytes_total", writer.byteCount),
            WorkerCounter("send_batches_total", writer.batchCount),
            WorkerCounter("datagrams_delayed_total", writer.delayedCount),
            WorkerCounter("stream_connections", UInt64(streams.count)),
            WorkerCounter("streams_accepted_total", streams.counters.accepted),
            WorkerCounter("stream_frames_received_total", streams.counters.framesReceived),
            WorkerCounter("stream_received_bytes_total", streams.counters.bytesReceived),
            WorkerCounter("stream_frames_sent_total", streams.counters.framesSent),
            WorkerCounter("stream_sent_bytes_total", streams.counters.bytesSent),
            WorkerCounter("packets_received_total", engine.packetsReceived),
            WorkerCounter("received_bytes_total", engine.bytesReceived),
            WorkerCounter("packets_forwarded_total", engine.packetsForwarded),
            WorkerCounter("forwarded_bytes_total", engine.bytesForwarded),
            WorkerCounter("packets_repaired_total", engine.packetsRepaired),
            WorkerCounter("packets_recovered_total", engine.packetsRecovered),
            WorkerCounter("packets_made_redundant_total", engine.packetsMadeRedundant),
            WorkerCounter("key_frames_requested_total", engine.keyFramesRequested),
            WorkerCounter("checks_answered_total", engine.checksAnswered),
            WorkerCounter("mailbox_refusals_total", refusedPosts),
            WorkerCounter("news_kept", UInt64(keptNews)),
            WorkerCounter("recordings", UInt64(recorder.running)),
            WorkerCounter("recordings_ended_total", recorder.endedRecordings),
            WorkerCounter("recorded_bytes_total", recorder.byteCount),
            WorkerCounter("recorded_packets_dropped_total", recorder.droppedPackets),
            WorkerCounter("news_dropped_total", droppedNews),
        ]
        for reason in DropReason.allCases {
            // Too long shows at the socket already.
            let value = engine[reason] + (reason == .oversize ? reader.oversizeCount : 0)
            counters.append(WorkerCounter("drops_total", label: reason.name, value))
        }
        for kind in SendErrorKind.allCases {
            counters.append(WorkerCounter("send_errors_total", label: kind.name, writer.errors[kind]))
        }
        for rank in SendRank.allCases {
            counters.append(WorkerCounter("send_drops_total", label: rank.name, writer.droppedCount(rank)))
        }
        for (place, count) in turns.counts.enumerated() {
            counters.append(WorkerCounter("turns_total", label: TurnLengths.names[place], count))
        }
        for end in StreamEnd.allCases {
            counters.append(WorkerCounter("stream_ends_total", label: end.name, streams.counters[end]))
        }
        let handshakeCounts = [
            handshakes.begun, handshakes.established, handshakes.failed, handshakes.closedByPeer, handshakes.restarted,
            handshakes.repeatedFlights, handshakes.droppedUnknownParticipant, handshakes.droppedOverBudget,
            handshakes.droppedAtCapacity, handshakes.refusedRecords, handshakes.droppedWithoutHello,
        ]
        for (label, value) in zip(handshakeEvents, handshakeCounts) {
            counters.append(WorkerCounter("handshakes_total", label: label, value))
        }
        return counters
    }

    /// In the order of `all`.
    static let handshakeEvents = [
        "begun", "established", "failed", "closed-by-peer", "restarted", "repeated-flights",
        "dropped-unknown-participant", "dropped-over-budget", "dropped-at-capacity", "refused-records",
        "dropped-without-hello",
    ]
}

/// How busy the worker is, as the kernel says. Asked of the media loop's thread.
struct WorkerUsage {
    var mediaMicroseconds: UInt64
    /// Every other thread: handshakes.
    var otherMicroseconds: UInt64
    /// What waits in the UDP sockets, and what fits in.
    var queuedBytes: UInt64 = 0
    var queueLimitBytes: UInt64 = 0

    init(sockets: [UDPSocket]) {
        let media = UInt64(max(0, lio_thread_cpu_ns())) / 1_000
        mediaMicroseconds = media
        let all = UInt64(max(0, lio_process_cpu_ns())) / 1_000
        otherMicroseconds = all - min(all, media)
        for socket in sockets {
            let queue = socket.receiveQueue
            queuedBytes += queue.bytes
            queueLimitBytes += queue.limit
        }
    }
}
