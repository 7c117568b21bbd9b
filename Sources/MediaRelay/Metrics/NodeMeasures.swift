import RTPCore
import RelayCore

/// What a node measures of itself and its calls, from several threads, for `/metrics`.
package final class NodeMeasures: @unchecked Sendable {
    // @unchecked: histograms are made for sharing, the rest is touched under `lock` only.
    /// One transaction of the journal, flushed to disk.
    package let commit = Histogram(bounds: Histogram.fineSeconds)
    /// From a decision to its being on disk: the wait for the transaction before, and its own.
    package let stored = Histogram(bounds: Histogram.fineSeconds)
    /// From a request that lets a prepared participant join, as it was read, to the worker's opening of the gate.
    package let gate = Histogram(bounds: Histogram.fineSeconds)
    package let setup = Histogram(bounds: Histogram.waitSeconds)
    package let firstAudio = Histogram(bounds: Histogram.waitSeconds)
    package let firstVideo = Histogram(bounds: Histogram.waitSeconds)
    package let up = LegHistograms()
    package let down = LegHistograms()
    package let roundTrip = Histogram(bounds: Histogram.roundTripSeconds)

    /// One direction of all legs.
    package struct LegHistograms: Sendable {
        package let loss = Histogram(bounds: Histogram.lossRatios)
        package let jitter = Histogram(bounds: Histogram.jitterSeconds)
    }

    private let lock = Lock()
    private var ends: [RoomOutcome: UInt64] = [:]
    private var largestLag: UInt64 = 0

    package init() {}

    package func record(_ measure: CallMeasure) {
        switch measure {
        case .prepared(let time): setup.record(time)
        case .firstMedia(.audio, let time): firstAudio.record(time)
        case .firstMedia(.video, let time): firstVideo.record(time)
        case .leg(let row): record(row)
        case .ended(let outcome): lock.withLock { ends[outcome, default: 0] += 1 }
        }
    }

    /// A direction in which nothing went counts nowhere.
    private func record(_ row: LegSeries.Row) {
        if row.packetsReceived > 0 {
            let all = row.packetsReceived &+ row.packetsLost
            up.loss.record(Double(row.packetsLost) / Double(all))
            up.jitter.record(Double(row.jitterMicroseconds) / 1_000_000)
        }
        if row.remotePacketsExpected > 0 {
            let lost = min(row.remotePacketsLost, row.remotePacketsExpected)
            down.loss.record(Double(lost) / Double(row.remotePacketsExpected))
            down.jitter.record(Double(row.remoteJitterMicroseconds) / 1_000_000)
        }
        if row.roundTripMicroseconds > 0 { roundTrip.record(Double(row.roundTripMicroseconds) / 1_000_000) }
    }

    /// Rooms that ended in this life of control.
    package func ended(_ outcome: RoomOutcome) -> UInt64 { lock.withLock { ends[outcome] ?? 0 } }

    /// How many events the reader that is furthest behind lacks.
    package var eventLag: UInt64 {
        get { lock.withLock { largestLag } }
        set { lock.withLock { largestLag = newValue } }
    }
}

/// Remembers which gates a request is opening, until the worker says that they are open. Confined to the control loop.
package struct GateWatch {
    private var asked: [ParticipantHandle: Instant] = [:]
    /// Those whose worker never answers must not stay for ever: when there are so many, all are forgotten.
    package static let limit = 4_096

    package init() {}

    package mutating func note(_ handle: ParticipantHandle, askedAt: Instant) {
        if asked.count >= Self.limit { asked.removeAll(keepingCapacity: true) }
        asked[handle] = askedAt
    }

    /// How long the gate took; nil when no request is known to have opened it.
    package mutating func opened(_ handle: ParticipantHandle, at instant: Instant) -> Interval? {
        asked.removeValue(forKey: handle).map { instant - $0 }
    }
}
