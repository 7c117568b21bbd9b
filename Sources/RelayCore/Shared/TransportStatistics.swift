/// Counters of one participant's transport since it was made: what came from the client (the uplink) as the relay saw
/// it, what went to the client (the downlink) as the client's receiver reports say, and the way between them.
///
/// Losses are counted first-hand on each leg, before any repair. Numbers that were lost on another participant's
/// uplink, and that a receiver therefore misses as well, are not counted against its downlink.
public struct TransportStatistics: Hashable, Sendable {
    // What each packet counts, side by side: up, then down.
    public var packetsReceived: UInt64 = 0
    public var bytesReceived: UInt64 = 0
    public var packetsSent: UInt64 = 0
    public var bytesSent: UInt64 = 0

    // Uplink.
    public var packetsLost: UInt64 = 0
    /// Interarrival jitter (RFC 3550 §6.4.1) of what the client sends: of its audio, or of its video where it sends
    /// none.
    public var jitterMicroseconds: UInt32 = 0
    public var largestJitterMicroseconds: UInt32 = 0
    /// The longest time between two packets of a kind since the gate opened, the time since the last one included;
    /// milliseconds. It says that nothing came, not why: a muted or held client may send nothing.
    public var largestAudioGapMs: UInt32 = 0
    public var largestVideoGapMs: UInt32 = 0

    // Downlink.
    /// The receiver's last reported fraction lost of what we send it, in 1/256.
    public var remoteFractionLost: UInt8 = 0
    /// Of the packets sent, those that the receiver reports as lost.
    public var remotePacketsLost: UInt64 = 0
    /// How many packet numbers the receiver's reports cover.
    public var remotePacketsExpected: UInt64 = 0
    /// As `jitterMicroseconds`, measured by the receiver.
    public var remoteJitterMicroseconds: UInt32 = 0
    public var largestRemoteJitterMicroseconds: UInt32 = 0

    // The relay itself.
    /// Packets for the client that the relay had and did not send: no path, or no room in its batch.
    public var packetsDiscarded: UInt64 = 0
    /// Datagrams that the kernel dropped since the worker began because a socket's buffer was full, whoever they came from.
    public var workerOverflows: UInt64 = 0

    // Both.
    /// Latest round-trip time by our own STUN check, microseconds; 0 when none is known, as of the others.
    public var roundTripMicroseconds: UInt32 = 0
    public var smallestRoundTripMicroseconds: UInt32 = 0
    public var largestRoundTripMicroseconds: UInt32 = 0
    /// Sum and number of all round-trip times measured.
    public var roundTripSumMicroseconds: UInt64 = 0
    public var roundTripCount: UInt32 = 0
    /// How often the selected path moved to another address.
    public var pathChanges: UInt32 = 0

    public init() {}

    /// The mean of all round-trip times measured; 0 when there is none.
    public var meanRoundTripMicroseconds: UInt32 {
        roundTripCount == 0 ? 0 : UInt32(clamping: roundTripSumMicroseconds / UInt64(roundTripCount))
    }

    /// Counts one measured round trip.
    public mutating func note(roundTripMicroseconds time: UInt32) {
        smallestRoundTripMicroseconds = roundTripCount == 0 ? time : min(smallestRoundTripMicroseconds, time)
        largestRoundTripMicroseconds = max(largestRoundTripMicroseconds, time)
        roundTripMicroseconds = time
        roundTripSumMicroseconds &+= UInt64(time)
        roundTripCount &+= 1
    }
}

/// As JSON in the journal: only what is not 0, under the fields' names. A field that is missing, as in records of older
/// versions, is 0.
extension TransportStatistics: Codable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        self.init()
        let fields = try decoder.container(keyedBy: Name.self)
        func read<Number: FixedWidthInteger & Decodable>(
            _ path: WritableKeyPath<Self, Number>, _ name: String
        ) throws {
            self[keyPath: path] = try fields.decodeIfPresent(Number.self, forKey: Name(stringValue: name)) ?? 0
        }
        for (path, name) in Self.longFields { try read(path, name) }
        for (path, name) in Self.shortFields { try read(path, name) }
        try read(\.remoteFractionLost, "remoteFractionLost")
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Name.self)
        func write(_ number: some FixedWidthInteger & Encodable, _ name: String) throws {
            if number != 0 { try fields.encode(number, forKey: Name(stringValue: name)) }
        }
        for (path, name) in Self.longFields { try write(self[keyPath: path], name) }
        for (path, name) in Self.shortFields { try write(self[keyPath: path], name) }
        try write(remoteFractionLost, "remoteFractionLost")
    }
}

extension TransportStatistics {
    /// Every field of 64 bits with its name, in the order of the link's bytes.
    static let longFields: [(path: any WritableKeyPath<Self, UInt64> & Sendable, name: String)] = [
        (\.packetsReceived, "packetsReceived"), (\.bytesReceived, "bytesReceived"),
        (\.packetsLost, "packetsLost"), (\.packetsSent, "packetsSent"), (\.bytesSent, "bytesSent"),
        (\.remotePacketsLost, "remotePacketsLost"), (\.remotePacketsExpected, "remotePacketsExpected"),
        (\.roundTripSumMicroseconds, "roundTripSumMicroseconds"),
        (\.packetsDiscarded, "packetsDiscarded"), (\.workerOverflows, "workerOverflows"),
    ]

    /// Every field of 32 bits, likewise.
    static let shortFields: [(path: any WritableKeyPath<Self, UInt32> & Sendable, name: String)] = [
        (\.jitterMicroseconds, "jitterMicroseconds"),
        (\.largestJitterMicroseconds, "largestJitterMicroseconds"),
        (\.largestAudioGapMs, "largestAudioGapMs"), (\.largestVideoGapMs, "largestVideoGapMs"),
        (\.remoteJitterMicroseconds, "remoteJitterMicroseconds"),
        (\.largestRemoteJitterMicroseconds, "largestRemoteJitterMicroseconds"),
        (\.roundTripMicroseconds, "roundTripMicroseconds"),
        (\.smallestRoundTripMicroseconds, "smallestRoundTripMicroseconds"),
        (\.largestRoundTripMicroseconds, "largestRoundTripMicroseconds"),
        (\.roundTripCount, "roundTripCount"), (\.pathChanges, "pathChanges"),
    ]
}
