/// Writes one video track as WebM or Matroska (RFC 9559, the WebM guidelines): header, clusters of known size, at the end the cues,
/// and what only the end knows (duration, where the cues are) over places that were left for it. Every cluster that was taken plays,
/// whatever happens next: the segment's size is unknown until the end. Owns no file and no clock.
public struct MatroskaWriter: Sendable {
    /// Bytes that take the place of others already written.
    public struct Patch: Hashable, Sendable {
        public var offset: Int
        public var bytes: [UInt8]
    }

    /// Block times are 16 bits with a sign, in ms.
    private static let longestCluster: Int64 = 30_000
    private static let cueLimit = 20_000
    private static let seekByteCount = 64
    private static let durationByteCount = 11

    private var output: [UInt8] = []
    private var byteCount = 0
    private var cluster: [UInt8] = []
    private var clusterStart: Int64 = 0
    private var clusterHasKey = false
    private var cues: [(time: Int64, position: Int)] = []
    private let segmentSizeOffset: Int
    private let segmentStart: Int
    private let durationOffset: Int
    private var lastTime: Int64 = -1
    private var lastStep: Int64 = 33
    private var isFinished = false
    /// What `finish` changes of what came before.
    public private(set) var patches: [Patch] = []

    /// - Parameters:
    ///   - configuration: the codec's private data (avcC, av1C); empty: none.
    ///   - name: of the track, as players show it.
    public init(format: VideoFormat, size: PictureSize, configuration: [UInt8], name: String) {
        let head = EBML.element(
            0x1A45_DFA3,
            [
                EBML.element(0x4286, unsigned: 1), EBML.element(0x42F7, unsigned: 1), EBML.element(0x42F2, unsigned: 4),
                EBML.element(0x42F3, unsigned: 8), EBML.element(0x4282, text: format.documentType),
                EBML.element(0x4287, unsigned: 4), EBML.element(0x4285, unsigned: 2),
            ])
        output = head + EBML.idBytes(0x1853_8067)
        segmentSizeOffset = output.count
        output += EBML.unknownSize
        segmentStart = output.count
        output += EBML.void(byteCount: Self.seekByteCount)
        let scale = EBML.element(0x2AD7B1, unsigned: 1_000_000)
        let applications = EBML.element(0x4D80, text: "media-relay") + EBML.element(0x5741, text: "media-relay")
        let info = scale + applications + EBML.void(byteCount: Self.durationByteCount)
        output += EBML.element(0x1549_A966, info)
        durationOffset = output.count - Self.durationByteCount
        var track = [
            EBML.element(0xD7, unsigned: 1), EBML.element(0x73C5, unsigned: 1), EBML.element(0x83, unsigned: 1),
            EBML.element(0x9C, unsigned: 0), EBML.element(0x22B59C, text: "und"), EBML.element(0x536E, text: name),
            EBML.element(0x86, text: format.codecID),
        ]
        if !configuration.isEmpty { track.append(EBML.element(0x63A2, configuration)) }
        track.append(
            EBML.element(
                0xE0,
                [
                    EBML.element(0xB0, unsigned: UInt64(max(1, size.width))),
                    EBML.element(0xBA, unsigned: UInt64(max(1, size.height))),
                ]))
        output += EBML.element(0x1654_AE6B, EBML.element(0xAE, track))
        byteCount = output.count
    }

    /// What a file needs from the first picture to the end of the last, in ms.
    public var duration: Int64 { lastTime < 0 ? 0 : lastTime + lastStep }

    /// - Parameter time: ms behind the first picture; one that is not later than the picture before it is moved behind it.
    public mutating func append(_ frame: [UInt8], isKey: Bool, at time: Int64) {
        precondition(!isFinished, "a picture behind the end")
        let time = max(time, lastTime + 1)
        if lastTime >= 0 { lastStep = min(time - lastTime, 1_000) }
        lastTime = time
        if !cluster.isEmpty, isKey || time - clusterStart > Self.longestCluster { closeCluster() }
        if cluster.isEmpty {
            clusterStart = time
            clusterHasKey = isKey
            cluster = EBML.element(0xE7, unsigned: UInt64(time))
        }
        cluster += EBML.idBytes(0xA3) + EBML.size(frame.count + 4) + [0x81]
        cluster.append(bigEndian: Int16(time - clusterStart))
        cluster.append(isKey ? 0x80 : 0)
        cluster += frame
    }

    /// Ends the cluster that is being filled.
    public mutating func flush() { if !cluster.isEmpty { closeCluster() } }

    /// The cues; `patches` has the rest.
    public mutating func finish() {
        guard !isFinished else { return }
        flush()
        isFinished = true
        let cuesPosition = byteCount - segmentStart
        if !cues.isEmpty {
            let points = cues.map { cue in
                let place = EBML.element(0xF7, unsigned: 1) + EBML.element(0xF1, unsigned: UInt64(cue.position))
                return EBML.element(0xBB, EBML.element(0xB3, unsigned: UInt64(cue.time)) + EBML.element(0xB7, place))
            }
            put(EBML.element(0x1C53_BB6B, points))
            let seek = EBML.element(
                0x114D_9B74,
                EBML.element(
                    0x4DBB,
                    EBML.element(0x53AB, EBML.idBytes(0x1C53_BB6B))
                        + EBML.element(0x53AC, unsigned: UInt64(cuesPosition))))
            patches.append(
                Patch(offset: segmentStart, bytes: seek + EBML.void(byteCount: Self.seekByteCount - seek.count)))
        }
        patches.append(Patch(offset: durationOffset, bytes: EBML.element(0x4489, double: Double(duration))))
        patches.append(Patch(offset: segmentSizeOffset, bytes: EBML.size(byteCount - segmentStart, width: 8)))
    }

    /// What was completed since the last call.
    public mutating func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    private mutating func put(_ bytes: [UInt8]) {
        output += bytes
        byteCount += bytes.count
    }

    private mutating func closeCluster() {
        if clusterHasKey, cues.count < Self.cueLimit { cues.append((clusterStart, byteCount - segmentStart)) }
        put(EBML.element(0x1F43_B675, cluster))
        cluster = []
    }
}
