import RelayCore

// The worker's counters as control shows them on /metrics: names and labels, summed or told apart there by
// worker.

extension WorkerCounter {
    /// Everything that a worker counts, engine and sockets and handshaker.
    static func all(
        engine: EngineCounters, reader: DatagramReader, writer: DatagramWriter, streams: MediaStreams,
        handshakes: HandshakeCounters, refusedPosts: UInt64, keptNews: Int, droppedNews: UInt64, transports: Int
    ) -> [WorkerCounter] {
        var counters = [
            WorkerCounter("transports", UInt64(transports)),
            WorkerCounter("datagrams_received", reader.datagramCount),
            WorkerCounter("receive_batches", reader.batchCount),
            WorkerCounter("receive_overflows", reader.overflowCount),
            WorkerCounter("datagrams_sent", writer.datagramCount),
            WorkerCounter("bytes_sent", writer.byteCount),
            WorkerCounter("send_batches", writer.batchCount),
            WorkerCounter("datagrams_delayed", writer.delayedCount),
            WorkerCounter("stream_connections", UInt64(streams.count)),
            WorkerCounter("streams_accepted", streams.counters.accepted),
            WorkerCounter("stream_frames_received", streams.counters.framesReceived),
            WorkerCounter("stream_bytes_received", streams.counters.bytesReceived),
            WorkerCounter("stream_frames_sent", streams.counters.framesSent),
            WorkerCounter("stream_bytes_sent", streams.counters.bytesSent),
            WorkerCounter("packets_received", engine.packetsReceived),
            WorkerCounter("bytes_received", engine.bytesReceived),
            WorkerCounter("packets_forwarded", engine.packetsForwarded),
            WorkerCounter("bytes_forwarded", engine.bytesForwarded),
            WorkerCounter("packets_repaired", engine.packetsRepaired),
            WorkerCounter("packets_recovered", engine.packetsRecovered),
            WorkerCounter("packets_made_redundant", engine.packetsMadeRedundant),
            WorkerCounter("key_frames_requested", engine.keyFramesRequested),
            WorkerCounter("checks_answered", engine.checksAnswered),
            WorkerCounter("mailbox_refusals", refusedPosts),
            WorkerCounter("news_kept", UInt64(keptNews)),
            WorkerCounter("news_dropped", droppedNews),
        ]
        for reason in DropReason.allCases {
            // Too long shows at the socket already.
            let value = engine[reason] + (reason == .oversize ? reader.oversizeCount : 0)
            counters.append(WorkerCounter("drops", label: reason.name, value))
        }
        for kind in SendErrorKind.allCases {
            counters.append(WorkerCounter("send_errors", label: kind.name, writer.errors[kind]))
        }
        for rank in SendRank.allCases {
            counters.append(WorkerCounter("send_drops", label: rank.name, writer.droppedCount(rank)))
        }
        for end in StreamEnd.allCases {
            counters.append(WorkerCounter("stream_ends", label: end.name, streams.counters[end]))
        }
        let handshakeCounts: [(String, UInt64)] = [
            ("begun", handshakes.begun), ("established", handshakes.established),
            ("failed", handshakes.failed),
            ("closed-by-peer", handshakes.closedByPeer), ("restarted", handshakes.restarted),
            ("repeated-flights", handshakes.repeatedFlights),
            ("dropped-unknown-participant", handshakes.droppedUnknownParticipant),
            ("dropped-over-budget", handshakes.droppedOverBudget),
            ("dropped-at-capacity", handshakes.droppedAtCapacity),
            ("refused-records", handshakes.refusedRecords),
            ("dropped-without-hello", handshakes.droppedWithoutHello),
        ]
        for (label, value) in handshakeCounts {
            counters.append(WorkerCounter("handshakes", label: label, value))
        }
        return counters
    }
}
