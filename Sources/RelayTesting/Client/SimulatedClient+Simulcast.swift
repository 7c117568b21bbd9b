import RTPCore
import RelayCore

// Pictures in layers: the streams of a simulcast, each with numbers, clock and SSRC of its own, and temporal layers. Every
// picture says which one it refers to, so that a receiver can tell what a decoder could do with it (`LayerAudit`).

extension SimulatedClient {
    /// Lets a stream of the simulcast go silent, as an encoder does that ran out of rate, or go on with a key frame.
    public func pause(stream index: Int, _ isPaused: Bool) {
        if isPaused {
            pausedStreams.insert(index)
        } else if pausedStreams.remove(index) != nil {
            streams[index].wantsKeyFrame = true
        }
    }

    /// Streams that are sent now: not paused and, from the lowest up, within the relay's limit, as libwebrtc does it.
    public var activeStreams: [Int] {
        var left = Double(bitrateLimit ?? .max) - 60_000
        return streams.indices.filter { index in
            left -= streamRate(index) * 0.9
            return !pausedStreams.contains(index) && (!options.obeysBitrateLimits || bitrateLimit == nil || left >= 0)
        }
    }

    /// Bits per second of one stream's pictures.
    func streamRate(_ index: Int) -> Double {
        let packets = options.packetsPerStream[index % options.packetsPerStream.count]
        let bits = packets * (options.videoPayloadByteCount + 80) * 8
        return Double(bits) * 1e9 / Double(options.videoInterval.nanoseconds)
    }

    /// How often a key frame of a stream was asked for.
    public func keyFrameRequests(ofStream index: Int) -> Int { streams[index].keyFrameRequestCount }
    /// Key frames that a stream has sent.
    public func keyFramesSent(ofStream index: Int) -> Int { streams[index].keyFrameCount }
    /// Packets that a stream has sent.
    public func packetsSent(ofStream index: Int) -> Int { Int(streams[index].packetCount) }

    func drawStreams() {
        guard let first = sent[.video], !options.streamIDs.isEmpty else { return }
        streams = [first]
        for _ in options.streamIDs.dropFirst() {
            let ssrc = UInt32.random(in: 1...UInt32.max, using: &random)
            let rtxSSRC = first.rtxSSRC == 0 ? 0 : UInt32.random(in: 1...UInt32.max, using: &random)
            streams.append(
                SentStream(
                    section: first.section, ssrc: ssrc, rtxSSRC: rtxSSRC, maker: first.maker, random: &random))
        }
        for (stream, id) in zip(streams, options.streamIDs) { stream.streamID = id }
    }

    /// What an offer says of its streams.
    var simulcastLines: [String] {
        guard !options.streamIDs.isEmpty else { return [] }
        return options.streamIDs.map { "a=rid:\($0) send" }
            + ["a=simulcast:send " + options.streamIDs.joined(separator: ";")]
    }

    /// One picture of every stream that is active.
    func sendLayeredPictures() {
        let active = activeStreams
        for (index, stream) in streams.enumerated() {
            guard active.contains(index) else {
                stream.wasPaused = true
                continue
            }
            let isKey = stream.wantsKeyFrame || stream.wasPaused
            stream.wantsKeyFrame = false
            stream.wasPaused = false
            let count = options.packetsPerStream[index % options.packetsPerStream.count] * (isKey ? 2 : 1)
            let layers = stream.pattern.next(isKey: isKey, layerCount: options.temporalLayerCount)
            if isKey { stream.keyFrameCount += 1 }
            let contents = stream.maker.layeredFrame(
                layers, stream: UInt8(index), packetCount: count, byteCount: options.videoPayloadByteCount)
            for (number, content) in contents.enumerated() {
                sendMedia(stream, content, marker: number == contents.count - 1, stamps: false)
            }
        }
    }
}

/// Which temporal layer the next picture is in, and what it refers to.
struct LayerPattern {
    struct Picture {
        var isKey: Bool
        var number: UInt32
        /// The picture that this one refers to; itself for a key frame.
        var reference: UInt32
        var temporalLayer: UInt8
        var isSync: Bool
        var baseIndex: UInt8
        var hasLayers: Bool
    }

    private var number: UInt32 = 0
    private var place = 0
    private var baseIndex: UInt8 = 250
    /// The newest picture of each temporal layer.
    private var newest: [UInt32] = [0, 0, 0]

    /// With three layers 0 2 1 2, with two 0 1: libwebrtc's patterns. A picture refers to the newest one below its layer; the
    /// last of four to the one in the middle.
    mutating func next(isKey: Bool, layerCount: Int) -> Picture {
        number += 1
        if isKey { place = 0 }
        let order: [Int] = layerCount == 3 ? [0, 2, 1, 2] : layerCount == 2 ? [0, 1] : [0]
        let layer = order[place]
        if layer == 0 { baseIndex &+= 1 }
        let refersToMiddle = layerCount == 3 && place == 3
        let reference = isKey ? number : refersToMiddle ? newest[1] : newest[0]
        newest[layer] = number
        place = (place + 1) % order.count
        return Picture(
            isKey: isKey, number: number, reference: reference, temporalLayer: UInt8(layer),
            isSync: layer > 0 && !refersToMiddle, baseIndex: baseIndex, hasLayers: layerCount > 1)
    }
}

extension MediaMaker {
    /// The payloads of one VP8 picture: the descriptor with everything that there is of layers, the frame's head, which stream
    /// it is of, its number and that of the picture it refers to.
    mutating func layeredFrame(
        _ picture: LayerPattern.Picture, stream: UInt8, packetCount: Int, byteCount: Int
    ) -> [[UInt8]] {
        defer { pictureNumber = (pictureNumber &+ 1) & 0x7FFF }
        let filler = [UInt8](repeating: stream, count: byteCount)
        let identifier = [0x80 | UInt8(pictureNumber >> 8), UInt8(pictureNumber & 0xFF)]
        let layers: [UInt8] =
            picture.hasLayers
            ? [picture.baseIndex, picture.temporalLayer << 6 | (picture.isSync ? 0x20 : 0)] : []
        // 320 × 180 and its doubles.
        let (width, height) = (UInt16(320) << UInt16(stream), UInt16(180) << UInt16(stream))
        let size = [UInt8(width & 0xFF), UInt8(width >> 8), UInt8(height & 0xFF), UInt8(height >> 8)]
        let head: [UInt8] = picture.isKey ? [0x10, 2, 0, 0x9D, 0x01, 0x2A] + size : [0x11, 2, 0]
        return (0..<packetCount).map { index in
            let descriptor = [index == 0 ? 0x90 : 0x80, picture.hasLayers ? 0xE0 : 0x80] + identifier + layers
            guard index == 0 else { return descriptor + filler }
            return descriptor + head + [stream] + be32(picture.number) + be32(picture.reference) + filler
        }
    }
}
