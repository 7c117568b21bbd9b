// What a room remembers for its call record while it lives: who came and went, what their legs measured, when devices
// rang, who ended it. Part of `RoomRecord`, so it survives a restart; bounded, so a group that runs for days stays
// small.

/// Who or what brought a decision about.
public struct CallCause: Hashable, Sendable, Codable {
    public enum Kind: String, Hashable, Sendable, Codable, CaseIterable {
        /// A client: its request, its DTLS close_notify.
        case participant
        /// The signaling server, or a user it spoke for (then with `uid`).
        case server
        /// A time that ran out; the record's reason says which.
        case timer
        /// The node itself: it drained, or a worker was lost.
        case node
    }
    public var kind: Kind
    public var uid: String?
    public var device: String?
    public init(_ kind: Kind, uid: String? = nil, device: String? = nil) {
        self.kind = kind
        self.uid = uid
        self.device = device
    }
}

/// What is noted of a participant while it is in.
public struct LegNotes: Hashable, Sendable, Codable {
    public internal(set) var firstAudioAtMs: Int64?
    public internal(set) var firstVideoAtMs: Int64?
    /// How often nothing came for so long that `participant.interrupted` was told, and for how long in all.
    public internal(set) var interruptions: Int?
    public internal(set) var interruptedMs: Int64?
    public internal(set) var interruptedSinceMs: Int64?
    /// What was told last; nil: good, and nothing else ever.
    public internal(set) var quality: LegQuality?
    public init() {}
}

/// One participant's stay in a room, after it has left: its times and what was measured on its leg.
public struct CallLeg: Hashable, Sendable, Codable {
    public let participant: ParticipantID
    public let uid: String
    public let device: String
    public let createdAtMs: Int64
    public let preparedAtMs: Int64?
    public let joinedAtMs: Int64?
    public let leftAtMs: Int64
    /// Nil: replaced by the same device preparing anew.
    public let reason: LeaveReason?
    /// What failed, where `reason` is `failed`.
    public let detail: String?
    public let notes: LegNotes
    public internal(set) var statistics: TransportStatistics
    /// The same over the time since it joined; nil for one who never did, and in records of older versions.
    public internal(set) var series: LegSeries?
    /// The statistics are the transport's last; otherwise they are up to 2 s older than its end, or none.
    public internal(set) var isFinal: Bool
    /// Of the transport, to know its last figures by.
    let handle: ParticipantHandle
    let worker: WorkerID?

    /// The last figures of its transport: what they add belongs to the end of its series.
    mutating func takeLast(_ figures: TransportStatistics) {
        if var series {
            var rest = LegSeries.Row(from: statistics, to: figures, spanMs: 0)
            // Without a row yet the stay was shorter than any report: the row is all of it.
            if series.rows.isEmpty { rest.spanMs = max(0, leftAtMs - series.startMs) }
            // Before the first report nothing is known of what the worker lost before this leg was there.
            if statistics == TransportStatistics() { rest.workerOverflows = 0 }
            series.addToLast(rest)
            self.series = series
        }
        statistics = figures
    }
}

/// A user of a failed call who was not joined in time.
public struct MissingUser: Hashable, Sendable, Codable {
    public let uid: String
    /// `ice`, `dtls`, `fingerprint`, `no-srtp-profile` or `no-join`.
    public let reason: String
}

public struct RoomHistory: Hashable, Sendable, Codable {
    /// Legs of which times and figures are kept: the latest. A peer call has two and one more for each repeated
    /// prepare; of a group's busy life the oldest legs are only counted.
    static let legsKept = 64
    /// Rows of all their series together: with more, the finest become coarser.
    static let rowsKept = 960
    /// Users of legs that are only counted who are remembered by name.
    static let usersKept = 256

    public internal(set) var legs: [CallLeg] = []
    public internal(set) var omittedLegs = 0
    public internal(set) var omittedUsers: [String] = []
    /// When each callee's first device rang.
    public internal(set) var ringingAtMs: [String: Int64] = [:]
    /// At the end.
    public internal(set) var cause: CallCause?
    public internal(set) var durationMs: Int64?
    /// Who was not joined in time, and why; of a `failed` call.
    public internal(set) var missing: [MissingUser]?

    /// Adds a leg; the one that had to make room.
    mutating func append(_ leg: CallLeg) -> CallLeg? {
        legs.append(leg)
        coarsen()
        guard legs.count > Self.legsKept else { return nil }
        let oldest = legs.removeFirst()
        omittedLegs += 1
        if !omittedUsers.contains(oldest.uid), omittedUsers.count < Self.usersKept { omittedUsers.append(oldest.uid) }
        return oldest
    }

    private mutating func coarsen() {
        var total = legs.reduce(0) { $0 + ($1.series?.rows.count ?? 0) }
        while total > Self.rowsKept {
            let finest = legs.indices.max { (legs[$0].series?.rows.count ?? 0) < (legs[$1].series?.rows.count ?? 0) }
            guard let finest, let before = legs[finest].series?.rows.count else { return }
            legs[finest].series?.coarsen()
            let after = legs[finest].series?.rows.count ?? 0
            total -= before - after
            guard after < before else { return }
        }
    }
}
