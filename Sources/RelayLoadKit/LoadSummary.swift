import CLinuxIO
import MediaRelay
import RTPCore
import RelayTesting

/// How people came: times in milliseconds, and why some did not.
package struct JoinFigures: Sendable {
    package private(set) var joined = 0
    package private(set) var failed = 0
    /// By reason, the first 20.
    package private(set) var reasons: [String: Int] = [:]
    package private(set) var unended: [String: Int] = [:]
    private(set) var answers: [Double] = []
    private(set) var setUps: [Double] = []
    private(set) var firstPackets: [Double] = []

    private static func milliseconds(_ interval: Interval) -> Double { Double(interval.nanoseconds) / 1e6 }

    mutating func answered(after interval: Interval) { answers.append(Self.milliseconds(interval)) }

    mutating func join(connected: Interval, heard: Interval?) {
        joined += 1
        setUps.append(Self.milliseconds(connected))
        if let heard, heard >= .zero { firstPackets.append(Self.milliseconds(heard)) }
    }

    mutating func fail(_ reason: String, times: Int = 1) {
        failed += times
        if reasons.count < 20 || reasons[reason] != nil { reasons[reason, default: 0] += times }
    }

    mutating func failToEnd(_ reason: String) {
        if unended.count < 20 || unended[reason] != nil { unended[reason, default: 0] += 1 }
    }
}

/// What media did between two moments.
package struct MediaFigures: Sendable {
    var seconds = 0.0
    var (sent, sentBytes, received, receivedBytes) = (0, 0, 0, 0)
    var (gaps, unopened, overflows, refused) = (0, 0, 0, 0)
    var lateMilliseconds = 0.0
    var cpuShare = 0.0
    /// Sorted, ms.
    var latencies: [Double] = []
    var roundTrips: [Double] = []
    /// By the server's reports.
    var lostOnTheWayThere = 0

    struct Begun: Sendable {
        var at: Instant
        var cpu: Int64
        var overflows: UInt64
        var refused: Int
    }

    static func begin(_ thread: MediaThread) async throws -> Begun {
        try await thread.perform { world in
            world.mill.reset()
            world.mill.startTiming()
            return Begun(
                at: MonotonicClock.now(), cpu: lio_thread_cpu_ns(), overflows: world.set.port.overflowCount,
                refused: world.set.port.refusedSends)
        }
    }

    static func end(_ thread: MediaThread, _ begun: Begun) async throws -> MediaFigures {
        try await thread.perform { world in
            var figures = MediaFigures()
            let (mill, port) = (world.mill, world.set.port)
            let elapsed = MonotonicClock.now() - begun.at
            figures.seconds = Double(elapsed.nanoseconds) / 1e9
            (figures.sent, figures.sentBytes) = (mill.sent, mill.sentByteCount)
            (figures.received, figures.receivedBytes) = (mill.received, mill.receivedByteCount)
            (figures.gaps, figures.unopened) = (mill.gaps, mill.unopened)
            figures.overflows = Int(port.overflowCount - begun.overflows)
            figures.refused = port.refusedSends - begun.refused
            figures.lateMilliseconds = Double(mill.behind) / 1e6
            figures.cpuShare = Double(lio_thread_cpu_ns() - begun.cpu) / Double(max(1, elapsed.nanoseconds))
            figures.latencies = mill.takeLatencies().map { Double($0) / 1e6 }
            for client in world.set.all {
                if let time = client.control.reportRoundTrip {
                    figures.roundTrips.append(Double(time.nanoseconds) / 1e6)
                }
                figures.lostOnTheWayThere += client.control.lastReceiverBlocks.reduce(0) {
                    $0 + max(0, Int($1.cumulativeLost))
                }
            }
            figures.roundTrips.sort()
            return figures
        }
    }
}

/// What a load showed. Times are milliseconds.
package struct LoadSummary: Sendable, Encodable {
    package struct Times: Sendable, Encodable {
        package var count: Int
        package var p50: Double
        package var p99: Double
        package var worst: Double

        /// Nil for none.
        init?(_ values: [Double]) {
            guard !values.isEmpty else { return nil }
            let sorted = values.sorted()
            count = sorted.count
            p50 = sorted[(count - 1) / 2]
            p99 = sorted[min(count - 1, count * 99 / 100)]
            worst = sorted[count - 1]
        }
    }

    package var scenario: String
    package var url: String
    package var roomSize: Int
    package var seconds: Double
    package var wasInterrupted: Bool
    package var joined: Int
    package var failed: Int
    package var failures: [String: Int]
    package var notEnded: [String: Int]
    /// From an offer to its answer; to the keys of ICE and DTLS; from the last one's offer in a room to somebody else's media.
    package var answer: Times?
    package var setUp: Times?
    package var firstPacket: Times?
    package var packetsSent: Int
    package var megabitsSent: Double
    package var packetsReceived: Int
    package var megabitsReceived: Double
    /// Numbers that did not come, of those that came and did not.
    package var lost: Int
    package var lostShare: Double
    package var unopened: Int
    /// Of packets by way of the server, from one client to another.
    package var latency: Times?
    /// By the server's RTCP reports on what it got.
    package var roundTrip: Times?
    package var lostOnTheWayThere: Int
    /// This program's own doing: how late it sent at most, its share of a core, datagrams that it did not take or send.
    package var generatorLate: Double
    package var generatorCore: Double
    package var generatorDropped: Int

    init(_ plan: LoadPlan, _ joins: JoinFigures, _ media: MediaFigures, wasInterrupted: Bool) {
        scenario = plan.scenario.rawValue
        url = plan.server.url
        roomSize = plan.roomSize
        seconds = media.seconds
        self.wasInterrupted = wasInterrupted
        joined = joins.joined
        failed = joins.failed
        failures = joins.reasons
        notEnded = joins.unended
        answer = Times(joins.answers)
        setUp = Times(joins.setUps)
        firstPacket = Times(joins.firstPackets)
        packetsSent = media.sent
        packetsReceived = media.received
        let span = max(0.001, media.seconds)
        megabitsSent = Double(media.sentBytes) * 8 / 1e6 / span
        megabitsReceived = Double(media.receivedBytes) * 8 / 1e6 / span
        lost = media.gaps
        lostShare = Double(media.gaps) / Double(max(1, media.gaps + media.received))
        unopened = media.unopened
        latency = Times(media.latencies)
        roundTrip = Times(media.roundTrips)
        lostOnTheWayThere = media.lostOnTheWayThere
        generatorLate = media.lateMilliseconds
        generatorCore = media.cpuShare
        generatorDropped = media.overflows + media.refused
    }
}
