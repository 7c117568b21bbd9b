import RTPCore
import RelayCore

/// Everything that a client received of one SSRC, in the order it came, retransmissions put back where they belong.
public final class ReceivedStream {
    public struct Packet: Sendable {
        /// The sequence number extended over its rollovers.
        public var sequence: Int64
        public var timestamp: UInt32
        public var marker: Bool
        public var payloadType: UInt8
        public var payload: [UInt8]
        /// Nil when the payload carries none, or was changed on its way.
        public var stamp: MediaStamp?
        public var mid: String?
        /// Header extension elements by id, as they came.
        public var extensions: [UInt8: [UInt8]]
        public var arrivedAt: Instant
        /// Came by RTX.
        public var isRepair: Bool
    }

    public let ssrc: UInt32
    public let kind: MediaKind
    /// In order of arrival; bounded by `keptPackets`.
    public private(set) var packets: [Packet] = []
    public private(set) var packetCount = 0
    public private(set) var byteCount = 0
    /// Came by RTX and was missing.
    public private(set) var repairedCount = 0
    /// Was there already.
    public private(set) var duplicateCount = 0
    public private(set) var keyFrameCount = 0
    /// Packets that came as RED; the packets kept are their primaries.
    public internal(set) var redCount = 0
    /// What RED packets repeated, in the order it came.
    public private(set) var repeatedStamps: [MediaStamp] = []
    public private(set) var lastArrival: Instant?
    /// When each sender was heard last, by the stamps that were read.
    public private(set) var lastHeard: [UInt32: Instant] = [:]
    public var keptPackets = 100_000

    private var unwrapper = SequenceUnwrapper()
    private var present: Set<Int64> = []
    private var lowest = Int64.max
    private var highest = Int64.min
    /// Numbers that are wanted again: when to ask next and how often it was done.
    private var missing: [Int64: (due: Instant, requests: Int)] = [:]
    private(set) var statistics = ReceptionStatistics()

    init(ssrc: UInt32, kind: MediaKind) {
        self.ssrc = ssrc
        self.kind = kind
    }

    /// Numbers between the first and the last that never came.
    public var missingCount: Int { highest < lowest ? 0 : Int(highest - lowest) + 1 - present.count }
    public var lowestSequence: Int64? { highest < lowest ? nil : lowest }
    public var highestSequence: Int64? { highest < lowest ? nil : highest }
    /// In the order of their numbers.
    public var sorted: [Packet] { packets.sorted { $0.sequence < $1.sequence } }
    /// Stamps in the order of the sequence numbers.
    public var stamps: [MediaStamp] { sorted.compactMap(\.stamp) }

    static let requestSpacing = Interval.milliseconds(60)
    static let requestLimit = 12

    func extend(_ number: UInt16) -> Int64 {
        highest < lowest ? Int64(number) : SequenceNumber.extend(number, near: highest)
    }

    func receive(_ packet: Packet, asksForRepairs: Bool, clockRate: UInt32, now: Instant) {
        guard present.insert(packet.sequence).inserted else {
            duplicateCount += 1
            return
        }
        if highest >= lowest, packet.sequence > highest + 1, asksForRepairs, packet.sequence - highest < 500 {
            for number in (highest + 1)..<packet.sequence { missing[number] = (now + .milliseconds(10), 0) }
        }
        missing[packet.sequence] = nil
        lowest = min(lowest, packet.sequence)
        highest = max(highest, packet.sequence)
        packetCount += 1
        byteCount += packet.payload.count
        lastArrival = now
        if let stamp = packet.stamp { lastHeard[stamp.sender] = now }
        if packet.isRepair {
            repairedCount += 1
        } else if packet.sequence >= 0 {
            statistics.received(
                extendedSequence: UInt64(packet.sequence), rtpTimestamp: packet.timestamp, arrival: now,
                clockRate: clockRate)
        }
        if isKeyFrameStart(packet.payload) { keyFrameCount += 1 }
        if packets.count < keptPackets { packets.append(packet) }
    }

    func repeated(_ payload: [UInt8]) {
        if let stamp = MediaStamp(readFrom: payload), repeatedStamps.count < keptPackets {
            repeatedStamps.append(stamp)
        }
    }

    func receivedSenderReport(compactNTP: UInt32, at now: Instant) {
        statistics.receivedSenderReport(compactNTP: compactNTP, at: now)
    }
    func makeReportBlock(now: Instant) -> ReportBlock? { statistics.makeReportBlock(ssrc: ssrc, now: now) }

    var repairDeadline: Instant { missing.values.map(\.due).min() ?? .distantFuture }

    /// Numbers to ask for now; true when some were given up.
    func dueRepairs(now: Instant) -> (numbers: [UInt16], gaveUp: Bool) {
        var due: [Int64] = []
        var gaveUp = false
        for (number, state) in missing where state.due <= now {
            if state.requests >= Self.requestLimit {
                missing[number] = nil
                gaveUp = true
            } else {
                missing[number] = (now + Self.requestSpacing, state.requests + 1)
                due.append(number)
            }
        }
        return (due.sorted().map { UInt16(truncatingIfNeeded: $0) }, gaveUp)
    }

    // MARK: - What a decoder would make of it

    public struct Picture: Sendable {
        public var timestamp: UInt32
        public var isKey: Bool
        public var completeAt: Instant
    }

    /// Video frames that a decoder could show: whole, and with every frame since the last key frame whole too.
    public var decodablePictures: [Picture] {
        var pictures: [Picture] = []
        var frame: [Packet] = []
        var hasReference = false
        var expected: Int64?
        for packet in sorted {
            if packet.sequence != expected { frame = [] }
            if let expected, packet.sequence != expected { hasReference = false }
            if let first = frame.first, first.timestamp != packet.timestamp { frame = [] }
            frame.append(packet)
            expected = packet.sequence + 1
            guard packet.marker, let first = frame.first else { continue }
            let isKey = isKeyFrameStart(first.payload)
            if isKey { hasReference = true }
            if hasReference, isKey || isFrameStart(first.payload) {
                let completeAt = frame.map(\.arrivedAt).max() ?? packet.arrivedAt
                pictures.append(Picture(timestamp: packet.timestamp, isKey: isKey, completeAt: completeAt))
            }
            frame = []
        }
        return pictures
    }

    private func isFrameStart(_ payload: [UInt8]) -> Bool {
        guard kind == .video, payload.count > 4 else { return false }
        // VP8 with our descriptor, or H264 as our maker cuts it.
        return payload[0] == 0x90 || payload[0] == 0x78 || (payload[0] == 0x7C && payload[1] & 0x80 != 0)
    }

    private func isKeyFrameStart(_ payload: [UInt8]) -> Bool {
        guard kind == .video, payload.count > 7 else { return false }
        if payload[0] == 0x90 { return payload[4] & 1 == 0 && payload[7] == 0x9D }
        return payload[0] == 0x78
    }
}
