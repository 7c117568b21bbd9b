import Foundation
import RTPCore
import Testing

@testable import RelayCore

@Suite struct LegSeriesTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func figures(_ received: UInt64, lost: UInt64 = 0) -> TransportStatistics {
        var statistics = TransportStatistics()
        statistics.packetsReceived = received
        statistics.bytesReceived = received * 100
        statistics.packetsLost = lost
        return statistics
    }

    @Test("ten seconds of reports are a row of what rose in them, with the largest jitter that was told") func rows() {
        var recorder = LegRecorder(since: start, startMs: 5_000, first: figures(0))
        var closed: [LegSeries.Row] = []
        for second in stride(from: Int64(2), through: 20, by: 2) {
            var report = figures(UInt64(second) * 50, lost: second > 10 ? 7 : 0)
            report.jitterMicroseconds = second == 14 ? 9_000 : 1_000
            report.roundTripSumMicroseconds = UInt64(second) * 20_000
            report.roundTripCount = UInt32(second)
            if let row = recorder.receive(report, at: start + .seconds(second)) { closed.append(row) }
        }
        #expect(closed.map(\.spanMs) == [10_000, 10_000])
        #expect(closed.map(\.packetsReceived) == [500, 500] && closed.map(\.bytesReceived) == [50_000, 50_000])
        #expect(closed.map(\.packetsLost) == [0, 7])
        #expect(closed.map(\.jitterMicroseconds) == [1_000, 9_000])
        #expect(closed.map(\.roundTripMicroseconds) == [20_000, 20_000])
        #expect(recorder.series.rows == closed && recorder.series.startMs == 5_000)
    }

    @Test("a day's call has no more rows than ten minutes', and nothing of it is lost") func bounded() {
        var recorder = LegRecorder(since: start, startMs: 0, first: figures(0))
        var count: Int64 = 0
        for second in stride(from: Int64(2), through: 86_400, by: 2) {
            if recorder.receive(figures(UInt64(second) * 50, lost: UInt64(second)), at: start + .seconds(second)) != nil
            {
                count += 1
            }
        }
        #expect(count == 8_640, "what histograms count stays ten seconds long")
        let series = recorder.finish(figures(86_400 * 50 + 3, lost: 86_400), at: start + .milliseconds(86_400_100))
        #expect(series.rows.count <= LegSeries.rowsKept && series.rows.count > LegSeries.rowsKept / 3)
        #expect(series.rows.reduce(0) { $0 + $1.packetsReceived } == 86_400 * 50 + 3)
        #expect(series.rows.reduce(0) { $0 + $1.packetsLost } == 86_400)
        #expect(series.rows.reduce(0) { $0 + $1.spanMs } == 86_400_100)
    }

    @Test("a counter that falls rose by nothing, and goes on from there") func falling() {
        var recorder = LegRecorder(since: start, startMs: 0, first: figures(0))
        _ = recorder.receive(figures(500, lost: 4), at: start + .seconds(10))
        _ = recorder.receive(figures(900, lost: 3), at: start + .seconds(20))
        _ = recorder.receive(figures(1_000, lost: 5), at: start + .seconds(30))
        #expect(recorder.series.rows.map(\.packetsLost) == [4, 0, 2])
    }

    @Test("what a worker's socket lost before the leg was there is not held against it") func overflows() {
        var first = figures(10)
        first.workerOverflows = 1_000
        var recorder = LegRecorder(since: start, startMs: 0, first: first)
        first.workerOverflows = 1_003
        let row = recorder.receive(first, at: start + .seconds(10))
        #expect(row?.workerOverflows == 3)
    }

    @Test("a series reads back as it was stored; one that is not whole is refused") func stored() throws {
        var recorder = LegRecorder(since: start, startMs: 77, first: figures(0))
        for second in stride(from: Int64(10), through: 900, by: 10) {
            _ = recorder.receive(figures(UInt64(second)), at: start + .seconds(second))
        }
        let series = recorder.series
        let bytes = try JSONEncoder().encode(series)
        #expect(try JSONDecoder().decode(LegSeries.self, from: bytes) == series)
        let cut = Data(#"{"startMs":1,"stepMs":10000,"rows":[1,2,3]}"#.utf8)
        #expect(throws: (any Error).self) { try JSONDecoder().decode(LegSeries.self, from: cut) }
    }
}

/// The same through the conductor: what a room's record and the node's histograms get.
@Suite struct LegSeriesOfRoomTests {
    private let harness = ConductorHarness()

    private func figures(_ received: UInt64, lost: UInt64 = 0, sent: UInt64 = 0) -> TransportStatistics {
        var statistics = TransportStatistics()
        statistics.packetsReceived = received
        statistics.packetsLost = lost
        statistics.packetsSent = sent
        return statistics
    }

    @Test("the record says in which ten seconds a leg lost something, up to its last figures") func record() throws {
        let (room, alice, ben) = harness.talking()
        for second in 1...12 {
            harness.advance(.seconds(2))
            harness.news(
                .statistics(alice.handle, figures(UInt64(second) * 100, lost: second > 5 ? 9 : 0), at: harness.now))
        }
        harness.leave(ben, in: room)
        harness.news(.removed(ben.handle, figures(3), at: harness.now))
        harness.news(.removed(alice.handle, figures(1_207, lost: 9), at: harness.now))
        let record = try #require(harness.calls.last { $0.room == room })
        let series = try #require(record.legs.first { $0.uid == "alice" }?.series)
        #expect(series.rows.map(\.packetsReceived) == [500, 500, 207])
        #expect(series.rows.map(\.packetsLost) == [0, 9, 0])
        let short = try #require(record.legs.first { $0.uid == "ben" }?.series)
        #expect(short.rows.map(\.packetsReceived) == [3])
        #expect(short.rows.first.map { $0.spanMs > 20_000 } == true)
        #expect(harness.measures.filter { if case .leg = $0 { true } else { false } }.count == 2)
        #expect(harness.measures.contains(.ended(.ended)))
    }

    @Test("after a restart of control the first row spans everything since the join") func restart() throws {
        let (room, alice, ben) = harness.talking()
        harness.advance(.seconds(30))
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: [alice, ben].map { harness.snapshot($0, in: room, .joined) })
        harness.advance(.seconds(2))
        harness.news(.statistics(alice.handle, figures(1_600), at: harness.now))
        harness.news(.ended(alice.handle, .closed, at: harness.now, figures(1_600)))
        let record = try #require(harness.calls.last { $0.room == room })
        let rows = try #require(record.legs.first { $0.uid == "alice" }?.series?.rows)
        #expect(rows.map(\.packetsReceived) == [1_600])
        #expect(rows.first.map { (31_000...33_000).contains($0.spanMs) } == true)
    }

    @Test("a room's record from before there were series is read, and has none; with them it reads back whole")
    func older() throws {
        let (room, alice, _) = harness.talking()
        harness.advance(.seconds(12))
        harness.news(.ended(alice.handle, .closed, at: harness.now, figures(600)))
        let record = try #require(harness.record(room))
        let bytes = try JSONEncoder().encode(record)
        #expect(try JSONDecoder().decode(RoomRecord.self, from: bytes) == record && record.isSound)
        var fields = try #require(try JSONSerialization.jsonObject(with: bytes) as? [String: Any])
        var history = try #require(fields["history"] as? [String: Any])
        let legs = try #require(history["legs"] as? [[String: Any]])
        #expect(legs.contains { $0["series"] != nil })
        history["legs"] = legs.map { leg in leg.filter { $0.key != "series" } }
        fields["history"] = history
        let old = try JSONDecoder().decode(RoomRecord.self, from: JSONSerialization.data(withJSONObject: fields))
        #expect(old.isSound && old.history?.legs.count == legs.count)
        #expect(old.history?.legs.allSatisfy { $0.series == nil } == true)
    }
}
