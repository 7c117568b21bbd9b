/// Makes pictures of one source's packets, which come in order. A picture with a hole is none, and from there on nothing is one until a key
/// frame: what would refer to what is not there is left out. Bounded, never traps.
public struct FrameAssembler: Sendable {
    /// Bytes of one picture.
    public static let byteLimit = 8 << 20

    public let format: VideoFormat
    private var payloads: [[UInt8]] = []
    private var byteCount = 0
    private var timestamp: UInt32 = 0
    private var arrival = Instant(nanoseconds: 0)
    private var isKey = false
    private var sequenceParameters: [UInt8] = []
    private var pictureParameters: [UInt8] = []
    /// Only a key frame can be used now.
    public private(set) var awaitsKeyFrame = true
    /// Pictures that were begun or whole and could not be used.
    public private(set) var unusedFrames: UInt64 = 0

    public init(format: VideoFormat) { self.format = format }

    /// Packets are missing before the next one.
    public mutating func noteGap() {
        if !payloads.isEmpty { unusedFrames += 1 }
        payloads = []
        byteCount = 0
        awaitsKeyFrame = true
    }

    /// The pictures that the packet completes: one by its marker, one before it by a new timestamp.
    public mutating func append(_ packet: RecordedPacket) -> [VideoFrame] {
        guard !packet.payload.isEmpty else { return [] }
        var frames: [VideoFrame] = []
        if !payloads.isEmpty, packet.timestamp != timestamp, let frame = complete() { frames.append(frame) }
        if payloads.isEmpty {
            timestamp = packet.timestamp
            arrival = packet.arrival
            isKey = false
        }
        // H.264 may have something in front of its parameter sets.
        if payloads.isEmpty || format == .h264 { isKey = isKey || format.startsKeyFrame(packet.payload) }
        payloads.append(packet.payload)
        byteCount += packet.payload.count
        guard byteCount <= Self.byteLimit else {
            noteGap()
            return frames
        }
        if packet.marker, let frame = complete() { frames.append(frame) }
        return frames
    }

    private mutating func complete() -> VideoFrame? {
        let parts = payloads
        payloads = []
        byteCount = 0
        var frame = VideoFrame(bytes: [], isKey: isKey, timestamp: timestamp, arrival: arrival)
        guard isKey || !awaitsKeyFrame, fill(&frame, from: parts) else {
            unusedFrames += 1
            awaitsKeyFrame = true
            return nil
        }
        if frame.isKey { awaitsKeyFrame = false }
        guard !awaitsKeyFrame else {
            unusedFrames += 1
            return nil
        }
        return frame
    }

    private mutating func fill(_ frame: inout VideoFrame, from parts: [[UInt8]]) -> Bool {
        switch format {
        case .vp8:
            guard let bytes = VPPicture.vp8(parts) else { return false }
            frame.bytes = bytes
            let first = parts[0]
            if frame.isKey, let size = KeyFrameSize.vp8(first.span) {
                frame.size = PictureSize(width: size.width, height: size.height)
            }
        case .vp9:
            guard let bytes = VPPicture.vp9(parts) else { return false }
            frame.bytes = bytes
            frame.size = frame.isKey ? VPPicture.vp9Size(bytes) : nil
        case .h264:
            guard let picture = H264Picture(parts) else { return false }
            if !picture.sequenceParameters.isEmpty { sequenceParameters = picture.sequenceParameters }
            if !picture.pictureParameters.isEmpty { pictureParameters = picture.pictureParameters }
            frame.bytes = picture.bytes
            frame.isKey = picture.hasIDR
            if frame.isKey {
                frame.configuration = H264Picture.configuration(sequenceParameters, pictureParameters)
                frame.size = H264Picture.size(sequenceParameters)
            }
        case .av1:
            guard let picture = AV1Picture(parts) else { return false }
            frame.bytes = picture.bytes
            if frame.isKey, let facts = picture.facts {
                frame.size = facts.size
                frame.configuration = facts.configuration
            }
        }
        // A key frame that does not say its size is none that a file can begin with.
        return !frame.isKey || frame.size != nil
    }
}
