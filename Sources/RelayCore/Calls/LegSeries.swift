/// What one leg measured over time: a row for each ten seconds, and for more the longer the call gets, so that it never has
/// more than `rowsKept`. Owns the bound; knows nothing of clocks or participants. Part of a call's record.
public struct LegSeries: Hashable, Sendable {
    static let rowsKept = 60
    /// What a row spans at first, milliseconds.
    public static let firstStepMs: Int64 = 10_000

    /// Counts are of the span, not of the call.
    public struct Row: Hashable, Sendable {
        public var spanMs: Int64 = 0
        // Client to relay, as in `TransportStatistics`.
        public var packetsReceived: UInt64 = 0
        public var bytesReceived: UInt64 = 0
        public var packetsLost: UInt64 = 0
        /// The largest that was told within the span, as of the others.
        public var jitterMicroseconds: UInt64 = 0
        // Relay to client.
        public var packetsSent: UInt64 = 0
        public var bytesSent: UInt64 = 0
        public var remotePacketsExpected: UInt64 = 0
        public var remotePacketsLost: UInt64 = 0
        public var remoteJitterMicroseconds: UInt64 = 0
        // Both ways.
        public var roundTripMicroseconds: UInt64 = 0
        public var pathChanges: UInt64 = 0
        // The relay itself.
        /// Packets for the client that the relay had and did not send.
        public var packetsDiscarded: UInt64 = 0
        /// Datagrams, of whichever call, that found the worker's socket full.
        public var workerOverflows: UInt64 = 0

        public init() {}
    }

    /// When the first row begins, milliseconds since the Unix epoch.
    public private(set) var startMs: Int64
    public private(set) var stepMs = firstStepMs
    /// One after the other without gap.
    public private(set) var rows: [Row] = []

    public init(startMs: Int64) { self.startMs = startMs }

    /// Goes on: within the last row where that has room, else as a row of its own.
    mutating func append(_ row: Row) {
        if let last = rows.last, fits(last, row) {
            rows[rows.count - 1].add(row)
        } else {
            rows.append(row)
        }
        while rows.count > Self.rowsKept { coarsen() }
    }

    /// What became known of the last row after it was over.
    mutating func addToLast(_ row: Row) {
        guard !rows.isEmpty else { return append(row) }
        rows[rows.count - 1].add(row)
    }

    /// About half as many rows, of twice the time.
    mutating func coarsen() {
        stepMs = stepMs &* 2
        var merged: [Row] = []
        for row in rows {
            if let last = merged.last, fits(last, row) {
                merged[merged.count - 1].add(row)
            } else {
                merged.append(row)
            }
        }
        rows = merged
    }

    /// Reports come every two seconds or so, not on the dot.
    private func fits(_ last: Row, _ next: Row) -> Bool { last.spanMs + next.spanMs <= stepMs + stepMs / 10 }
}

extension LegSeries.Row {
    mutating func add(_ other: Self) {
        spanMs &+= other.spanMs
        for path in Self.counts { self[keyPath: path] &+= other[keyPath: path] }
        for path in Self.peaks { self[keyPath: path] = max(self[keyPath: path], other[keyPath: path]) }
    }

    /// What the counters rose by. A counter that fell, as with a late packet that takes a loss back, rose by nothing.
    init(from before: TransportStatistics, to after: TransportStatistics, spanMs: Int64) {
        self.init()
        func rise(_ value: (TransportStatistics) -> UInt64) -> UInt64 {
            let (old, new) = (value(before), value(after))
            return new > old ? new - old : 0
        }
        self.spanMs = spanMs
        packetsReceived = rise(\.packetsReceived)
        bytesReceived = rise(\.bytesReceived)
        packetsLost = rise(\.packetsLost)
        jitterMicroseconds = UInt64(after.jitterMicroseconds)
        packetsSent = rise(\.packetsSent)
        bytesSent = rise(\.bytesSent)
        remotePacketsExpected = rise(\.remotePacketsExpected)
        remotePacketsLost = rise(\.remotePacketsLost)
        remoteJitterMicroseconds = UInt64(after.remoteJitterMicroseconds)
        let measured = rise { UInt64($0.roundTripCount) }
        roundTripMicroseconds = measured > 0 ? rise(\.roundTripSumMicroseconds) / measured : 0
        pathChanges = rise { UInt64($0.pathChanges) }
        packetsDiscarded = rise(\.packetsDiscarded)
        workerOverflows = rise(\.workerOverflows)
    }

    static let counts: [any WritableKeyPath<Self, UInt64> & Sendable] = [
        \.packetsReceived, \.bytesReceived, \.packetsLost, \.packetsSent, \.bytesSent, \.remotePacketsExpected,
        \.remotePacketsLost, \.pathChanges, \.packetsDiscarded, \.workerOverflows,
    ]
    static let peaks: [any WritableKeyPath<Self, UInt64> & Sendable] = [
        \.jitterMicroseconds, \.remoteJitterMicroseconds, \.roundTripMicroseconds,
    ]
}

/// In the journal: all rows as one list of numbers, in the order of `Row.counts`, then `Row.peaks`, behind each row's span.
extension LegSeries: Codable {
    private enum CodingKeys: String, CodingKey { case startMs, stepMs, rows }
    private static let width = 1 + Row.counts.count + Row.peaks.count

    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        startMs = try fields.decode(Int64.self, forKey: .startMs)
        stepMs = try fields.decode(Int64.self, forKey: .stepMs)
        let numbers = try fields.decode([UInt64].self, forKey: .rows)
        guard numbers.count % Self.width == 0, numbers.count / Self.width <= Self.rowsKept else {
            throw DecodingError.dataCorruptedError(forKey: .rows, in: fields, debugDescription: "not whole rows")
        }
        for start in stride(from: 0, to: numbers.count, by: Self.width) {
            var row = Row()
            row.spanMs = Int64(clamping: numbers[start])
            for (index, path) in (Row.counts + Row.peaks).enumerated() {
                row[keyPath: path] = numbers[start + 1 + index]
            }
            rows.append(row)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var numbers: [UInt64] = []
        numbers.reserveCapacity(rows.count * Self.width)
        for row in rows {
            numbers.append(UInt64(clamping: row.spanMs))
            for path in Row.counts { numbers.append(row[keyPath: path]) }
            for path in Row.peaks { numbers.append(row[keyPath: path]) }
        }
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(startMs, forKey: .startMs)
        try fields.encode(stepMs, forKey: .stepMs)
        try fields.encode(numbers, forKey: .rows)
    }
}

/// One participant's leg of a room, over or going on.
public struct LegSeriesView: Hashable, Sendable {
    public let participant: ParticipantID
    public let uid: String
    public let device: String
    /// Nil: it is in.
    public let leftAtMs: Int64?
    public let series: LegSeries
}
