import RTPCore
import RelayCore
import Testing

@Suite("Participant quality") struct QualityTests {
    /// Counters of a call in steps of 2 s, and what a monitor says to them.
    private struct Call {
        var monitor = QualityMonitor()
        var statistics = TransportStatistics()
        var now = Instant(nanoseconds: 0)

        mutating func step(
            up: UInt64 = 0, down: UInt64 = 0, roundTripMs: UInt32 = 40, jitterMs: UInt32 = 5, remoteJitterMs: UInt32 = 5
        ) -> String? {
            statistics.packetsReceived += 100 - up
            statistics.packetsLost += up
            statistics.remotePacketsExpected += 100
            statistics.remotePacketsLost += down
            statistics.jitterMicroseconds = jitterMs * 1_000
            statistics.remoteJitterMicroseconds = remoteJitterMs * 1_000
            statistics.note(roundTripMicroseconds: roundTripMs * 1_000)
            now += .seconds(2)
            return monitor.receive(statistics, at: now).map { "\($0.quality.grade) \($0.quality.leg)" }
        }

        mutating func steps(_ count: Int, up: UInt64 = 0, down: UInt64 = 0) -> [String?] {
            (0..<count).map { _ in step(up: up, down: down) }
        }
    }

    @Test("a good call is told nothing about") func good() {
        var call = Call()
        #expect(call.steps(10) == [String?](repeating: nil, count: 10))
    }

    @Test("loss names its direction, at the bound and one packet above it") func loss() {
        var call = Call()
        #expect(call.step(up: 2) == nil && call.step(down: 2) == nil)
        #expect(call.step(up: 3) == "fair uplink")
        var other = Call()
        #expect(other.step(down: 10) == "fair downlink")
        #expect(other.step(down: 11) == "poor downlink")
    }

    @Test("a long round trip and jitter count as the table says") func delay() {
        var call = Call()
        #expect(call.step(roundTripMs: 200) == nil)
        #expect(call.step(roundTripMs: 201) == "fair downlink")
        #expect(call.step(roundTripMs: 401) == "poor downlink")
        var jitter = Call()
        #expect(jitter.step(jitterMs: 30, remoteJitterMs: 30) == nil)
        #expect(jitter.step(jitterMs: 31) == "fair uplink")
        #expect(jitter.step(jitterMs: 81) == "poor uplink")
    }

    @Test("better is told after three better judgements in a row, worse at once") func hysteresis() {
        var call = Call()
        #expect(call.step(up: 20) == "poor uplink")
        #expect(call.steps(2) == [nil, nil])
        #expect(call.step(up: 20) == nil)
        #expect(call.steps(3) == [nil, nil, "good uplink"])
    }

    @Test("a value just under the bound does not toggle") func bound() {
        var call = Call()
        #expect(call.step(up: 3) == "fair uplink")
        #expect(call.steps(10, up: 2) == [String?](repeating: nil, count: 10))
        #expect(call.steps(3, up: 1) == [nil, nil, "good uplink"])
    }

    @Test("the worse direction is named, and the other one when it is the worse") func worse() {
        var call = Call()
        #expect(call.step(up: 5) == "fair uplink")
        #expect(call.step(up: 5, down: 5) == nil, "no worse than before")
        #expect(call.step(up: 5, down: 20) == "poor downlink")
    }

    @Test("a handful of packets says nothing about loss") func fewPackets() {
        var monitor = QualityMonitor()
        var statistics = TransportStatistics()
        statistics.packetsReceived = 24
        statistics.packetsLost = 25
        #expect(monitor.receive(statistics, at: Instant(nanoseconds: 0)) == nil)
        statistics.packetsReceived = 25
        #expect(monitor.receive(statistics, at: Instant(nanoseconds: 2_000_000_000)) != nil, "fifty do")
    }

    @Test("nobody is told twice within 2 s") func spacing() {
        var call = Call()
        #expect(call.step(up: 5) == "fair uplink")
        call.now += .milliseconds(-1)
        #expect(call.step(up: 20) == nil)
        #expect(call.step(up: 20) == "poor uplink")
    }

    @Test("the conductor tells a change as an event, with figures, and remembers it over a restart") func event() throws
    {
        let harness = ConductorHarness()
        let (room, alice, _) = harness.talking()
        var call = Call()
        _ = call.step(up: 50)
        harness.news(.statistics(alice.handle, call.statistics, at: harness.now))
        let event = try #require(harness.events.last)
        #expect(event.type == .participantQuality && event.uid == "alice" && event.device == "phone")
        #expect(event.value("quality") == .string("poor") && event.value("leg") == .string("uplink"))
        #expect(event.value("lossPercent") == .number(50))
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        let qualities = view?.participants.map(\.quality)
        #expect(qualities == [LegQuality(grade: .poor, leg: .uplink), nil], "alice came first")
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            transports: harness.record(room)?.participants.map { participant in
                TransportSnapshot(
                    participant: participant.handle, room: RoomHandle(1), phase: .joined, isInterrupted: false,
                    since: harness.now)
            } ?? [])
        harness.advance(.seconds(2))
        _ = call.step(up: 50)
        harness.news(.statistics(alice.handle, call.statistics, at: harness.now))
        #expect(harness.events.count { $0.type == .participantQuality } == 1)
    }
}
