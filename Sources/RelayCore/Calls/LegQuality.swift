import RTPCore

/// How good a participant's connection is, as `participant.quality` tells it.
public enum QualityGrade: String, Hashable, Sendable, Codable, CaseIterable, Comparable {
    case good, fair, poor
    private var rank: Int { self == .good ? 0 : self == .fair ? 1 : 2 }
    public static func < (a: QualityGrade, b: QualityGrade) -> Bool { a.rank < b.rank }
}

/// One direction of a client's leg.
public enum LegDirection: String, Hashable, Sendable, Codable, CaseIterable {
    /// Client to relay.
    case uplink
    /// Relay to client.
    case downlink
}

/// The worse of both directions and which one that is; the last bad one where all is good again.
public struct LegQuality: Hashable, Sendable, Codable {
    public var grade: QualityGrade
    public var leg: LegDirection
    public init(grade: QualityGrade, leg: LegDirection) {
        self.grade = grade
        self.leg = leg
    }
}

/// What was measured in one direction over the last interval.
public struct LegMeasure: Hashable, Sendable {
    public var lossPercent = 0.0
    public var jitterMs = 0.0
    public var roundTripMs = 0.0
    public init() {}
}

/// The table that quality is judged by: above `fair` it is no longer good, above `poor` it is poor.
public enum QualityThresholds {
    public struct Row: Sendable {
        public var fair: Double
        public var poor: Double
    }
    /// Percent of packets, before repair. Senders that follow Google's congestion control raise their rate below 2 %
    /// and lower it above 10 % (draft-ietf-rmcat-gcc-02 §6): the same bounds at which a call begins to change.
    public static let loss = Row(fair: 2, poor: 10)
    /// Milliseconds. Mouth to ear, 150 ms go unnoticed and 400 ms are the limit (ITU-T G.114). Capture, jitter buffer
    /// and playout take about 100 ms and the other leg about as much as this one: at 200 ms on both it is 300 ms, at
    /// 400 ms the network alone uses up the limit.
    public static let roundTrip = Row(fair: 200, poor: 400)
    /// Milliseconds. A jitter buffer settles at two to four times the jitter: 30 ms cost as much delay as a leg of
    /// 200 ms, and at 80 ms buffers of common size let packets come too late.
    public static let jitter = Row(fair: 30, poor: 80)
    /// A better grade is given only below this part of the bound, so that a value at the bound does not toggle…
    public static let recovery = 0.75
    /// …and only after as many judgements in a row as this, each of 2 s. A worse one is given at once.
    public static let judgementsToImprove = 3
    /// Loss is judged over this many packets at least: one lost packet is then 2 %, no more.
    public static let packetsJudged: UInt64 = 50
    /// Between two events of one participant.
    public static let shortestSpacing = Interval.seconds(2)
}

/// Judges one participant's statistics, a pure value: each 2 s a set of counters goes in, and what is to be told
/// comes out.
public struct QualityMonitor: Sendable {
    fileprivate struct Leg: Sendable {
        var grade = QualityGrade.good
        var betterCount = 0
        var measure = LegMeasure()
        var lost: UInt64 = 0
        var expected: UInt64 = 0
    }
    private var uplink = Leg()
    private var downlink = Leg()
    private var roundTripSum: UInt64 = 0
    private var roundTripCount: UInt32 = 0
    private var told: LegQuality
    private var toldAt: Instant?

    /// - Parameter told: what was told last of this participant, by a control process of before.
    public init(told: LegQuality? = nil) {
        self.told = told ?? LegQuality(grade: .good, leg: .uplink)
        switch self.told.leg {
        case .uplink: uplink.grade = self.told.grade
        case .downlink: downlink.grade = self.told.grade
        }
    }

    /// What to tell now, with the figures of the direction that it names; nil where nothing changed, or not long
    /// enough after the last time.
    public mutating func receive(
        _ statistics: TransportStatistics, at time: Instant
    ) -> (quality: LegQuality, measure: LegMeasure)? {
        judge(statistics)
        var quality = LegQuality(grade: max(uplink.grade, downlink.grade), leg: told.leg)
        if uplink.grade != downlink.grade, quality.grade != .good {
            quality.leg = uplink.grade > downlink.grade ? .uplink : .downlink
        }
        guard quality != told else { return nil }
        if let toldAt, time - toldAt < QualityThresholds.shortestSpacing { return nil }
        told = quality
        toldAt = time
        return (quality, quality.leg == .uplink ? uplink.measure : downlink.measure)
    }

    private mutating func judge(_ statistics: TransportStatistics) {
        uplink.noteLoss(
            statistics.packetsLost, of: statistics.packetsReceived &+ statistics.packetsLost)
        downlink.noteLoss(statistics.remotePacketsLost, of: statistics.remotePacketsExpected)
        uplink.measure.jitterMs = Double(statistics.jitterMicroseconds) / 1_000
        downlink.measure.jitterMs = Double(statistics.remoteJitterMicroseconds) / 1_000
        let count = statistics.roundTripCount &- roundTripCount
        let sum = statistics.roundTripSumMicroseconds &- roundTripSum
        roundTripCount = statistics.roundTripCount
        roundTripSum = statistics.roundTripSumMicroseconds
        if count > 0 {
            let time = Double(sum) / Double(count) / 1_000
            uplink.measure.roundTripMs = time
            downlink.measure.roundTripMs = time
        }
        // A queue on the way up shows in our own jitter; a long round trip alone is held against the way down.
        uplink.judge(withRoundTrip: false)
        downlink.judge(withRoundTrip: true)
    }
}

extension QualityMonitor.Leg {
    fileprivate mutating func noteLoss(_ lost: UInt64, of expected: UInt64) {
        // Counters start anew with a worker's transport, and a late packet takes a loss back.
        guard expected >= self.expected else {
            self.lost = lost
            self.expected = expected
            return
        }
        let step = expected - self.expected
        guard step >= QualityThresholds.packetsJudged else { return }
        let newlyLost = lost > self.lost ? lost - self.lost : 0
        measure.lossPercent = 100 * Double(min(newlyLost, step)) / Double(step)
        self.lost = lost
        self.expected = expected
    }

    fileprivate mutating func judge(withRoundTrip: Bool) {
        var next = grade(measure.lossPercent, QualityThresholds.loss)
        next = max(next, grade(measure.jitterMs, QualityThresholds.jitter))
        if withRoundTrip { next = max(next, grade(measure.roundTripMs, QualityThresholds.roundTrip)) }
        guard next < grade else {
            grade = next
            betterCount = 0
            return
        }
        betterCount += 1
        guard betterCount >= QualityThresholds.judgementsToImprove else { return }
        grade = next
        betterCount = 0
    }

    private func grade(_ value: Double, _ row: QualityThresholds.Row) -> QualityGrade {
        func bound(_ limit: Double, _ worse: QualityGrade) -> Double {
            grade >= worse ? limit * QualityThresholds.recovery : limit
        }
        if value > bound(row.poor, .poor) { return .poor }
        return value > bound(row.fair, .fair) ? .fair : .good
    }
}
