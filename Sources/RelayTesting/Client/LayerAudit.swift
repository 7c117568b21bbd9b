import RTPCore

/// What a decoder would make of a slot whose pictures are in layers (`SimulatedClient+Simulcast`): pictures in the order of
/// their numbers, whole or not, decodable or not, and every place where a number or a timestamp does not go on.
public struct LayerAudit: Sendable {
    public struct Picture: Sendable {
        public var stream: UInt8
        public var temporalLayer: UInt8
        public var isKey: Bool
        public var pictureID: UInt16
        public var baseIndex: UInt8
        public var timestamp: UInt32
        public var completeAt: Instant
        public var isDecodable: Bool
        public var height: Int
    }

    /// Whole pictures.
    public private(set) var pictures: [Picture] = []
    /// Pictures of which the end is missing: the stream was switched in the middle of them.
    public private(set) var cutCount = 0
    /// Numbers missing between the first and the last packet.
    public private(set) var missingCount = 0
    /// Picture ids that do not follow the one before.
    public private(set) var pictureIDBreaks = 0
    /// Base layer indices that are not those of the base layer picture before, or the next.
    public private(set) var baseIndexBreaks = 0
    /// Pictures not later than the one before.
    public private(set) var timestampBreaks = 0
    /// Whole pictures that refer to one which is missing or undecodable.
    public private(set) var undecodableCount = 0

    public var decodable: [Picture] { pictures.filter(\.isDecodable) }
    /// Stream changes from picture to picture.
    public var switchCount: Int { zip(pictures, pictures.dropFirst()).count { $0.stream != $1.stream } }

    /// The longest time without a new decodable picture after `start`.
    public func longestFreeze(after start: Instant = Instant(nanoseconds: 0)) -> Interval {
        let times = decodable.map(\.completeAt).filter { $0 >= start }
        return zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? .zero
    }

    public init(_ stream: ReceivedStream) {
        missingCount = stream.missingCount
        var open: (head: Head, timestamp: UInt32, expected: Int64, arrival: Instant)?
        var last: Head?
        var lastTimestamp: UInt32?
        // Numbers of decodable pictures, of the stream since its last key frame.
        var decoded: Set<UInt32> = []
        var current: UInt8?
        for packet in stream.sorted where !packet.payload.isEmpty {
            if let head = Head(packet.payload) {
                if open != nil { cutCount += 1 }
                if let last { check(head, after: last) }
                if let lastTimestamp, !TimestampArithmetic.isNewer(packet.timestamp, than: lastTimestamp) {
                    timestampBreaks += 1
                }
                (last, lastTimestamp) = (head, packet.timestamp)
                open = (head, packet.timestamp, packet.sequence, packet.arrivedAt)
            }
            guard var picture = open else { continue }
            guard packet.sequence == picture.expected, packet.timestamp == picture.timestamp else {
                cutCount += 1
                open = nil
                continue
            }
            picture.expected += 1
            picture.arrival = max(picture.arrival, packet.arrivedAt)
            open = picture
            guard packet.marker else { continue }
            open = nil
            if picture.head.isKey || current != picture.head.stream { decoded = [] }
            current = picture.head.stream
            let isDecodable = picture.head.isKey || decoded.contains(picture.head.reference)
            if isDecodable { decoded.insert(picture.head.number) } else { undecodableCount += 1 }
            pictures.append(
                Picture(
                    stream: picture.head.stream, temporalLayer: picture.head.temporalLayer, isKey: picture.head.isKey,
                    pictureID: picture.head.pictureID, baseIndex: picture.head.baseIndex,
                    timestamp: picture.timestamp, completeAt: picture.arrival, isDecodable: isDecodable,
                    height: 180 << Int(picture.head.stream)))
        }
    }

    private mutating func check(_ head: Head, after last: Head) {
        if head.pictureID != (last.pictureID &+ 1) & 0x7FFF { pictureIDBreaks += 1 }
        guard head.hasLayers, last.hasLayers else { return }
        let step: UInt8 = head.temporalLayer == 0 ? 1 : 0
        if head.baseIndex != last.baseIndex &+ step { baseIndexBreaks += 1 }
    }

    /// What the first packet of a picture says.
    private struct Head {
        var stream: UInt8
        var number: UInt32
        var reference: UInt32
        var isKey: Bool
        var pictureID: UInt16
        var baseIndex: UInt8
        var temporalLayer: UInt8
        var hasLayers: Bool

        init?(_ payload: [UInt8]) {
            guard let descriptor = VP8Descriptor(payload.span), descriptor.startsPartition,
                payload.count >= descriptor.byteCount + 19
            else { return nil }
            isKey = descriptor.startsKeyFrame
            pictureID = descriptor.pictureID
            baseIndex = descriptor.baseLayerIndex
            temporalLayer = descriptor.temporalLayer
            hasLayers = descriptor.hasTemporalLayer
            var cursor = ByteCursor(payload)
            cursor.skip(descriptor.byteCount + (isKey ? 10 : 3))
            stream = cursor.take8()
            number = cursor.take32()
            reference = cursor.take32()
        }
    }
}
