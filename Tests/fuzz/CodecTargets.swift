import RTPCore

extension FuzzTarget {
    /// What a relay reads, and rewrites, of payloads lies within them. The first byte says whose payload the rest is.
    static let descriptors = FuzzTarget(
        name: "descriptors", byteLimit: 1_500,
        seeds: {
            inputs(vectors("vp8", "cases", "unparsable"), behind: 0)
                + inputs(vectors("vp9", "cases", "unparsable"), behind: 1)
                + inputs(vectors("h264", "cases", "unparsable"), behind: 2)
                + inputs(vectors("av1", "cases", "unparsable"), behind: 3)
                + inputs(vectors("opus", "cases", "unparsable"), behind: 4)
        }
    ) { bytes in
        let payload = Array(bytes.dropFirst())
        switch bytes[0] % 5 {
        case 0: checkVP8(payload)
        case 1: checkVP9(payload)
        case 2: checkH264(payload)
        case 3: checkAV1(payload)
        default: checkOpus(payload)
        }
    }

    private static func checkPicture(_ layers: PacketLayers, _ payload: [UInt8], _ codec: LayeredCodec) {
        require(layers.pictureIDByteCount <= 2, "a picture id of \(layers.pictureIDByteCount) bytes")
        require(layers.pictureIDOffset + layers.pictureIDByteCount <= payload.count, "a picture id beyond the payload")
        require(layers.baseLayerIndexOffset < max(1, payload.count), "a layer index beyond the payload")
        require(layers.temporalLayer < 8, "temporal layer \(layers.temporalLayer)")
        for limit in UInt8(0)...3 {
            for wanted in UInt8(0)...3 {
                let next = layers.temporalLimit(after: limit, wanted: wanted, codec: codec)
                require(next >= min(limit, wanted) && next <= max(limit, wanted, layers.temporalLayer), "a far limit")
            }
        }
    }

    private static func checkVP8(_ payload: [UInt8]) {
        checkPicture(PacketLayers(vp8: payload.span), payload, .vp8)
        if let size = KeyFrameSize.vp8(payload.span) {
            require(size.width < 1 << 14 && size.height < 1 << 14, "a size")
        }
        guard let descriptor = VP8Descriptor(payload.span) else { return }
        require((1...6).contains(descriptor.byteCount) && descriptor.byteCount <= payload.count, "a long descriptor")
        require(descriptor.layerOffset < descriptor.byteCount && descriptor.pictureID < 1 << 15, "a field elsewhere")
        require(descriptor.startsKeyFrame == VP8Descriptor.startsKeyFrame(payload.span), "two minds about a key frame")
    }

    private static func checkVP9(_ payload: [UInt8]) {
        checkPicture(PacketLayers(vp9: payload.span), payload, .vp9)
        _ = KeyFrameSize.vp9(payload.span)
        guard let descriptor = VP9Descriptor(payload.span) else { return }
        require(descriptor.byteCount <= payload.count && descriptor.referenceCount <= 3, "a long descriptor")
        for layer in -1...8 {
            let size = descriptor.size(ofSpatialLayer: layer, in: payload.span)
            require(size == nil || (layer >= 0 && layer < descriptor.spatialLayerCount), "a size of no layer")
        }
    }

    private static func checkH264(_ payload: [UInt8]) {
        guard let read = H264Payload(payload.span) else { return }
        require(read.startsKeyFrame == H264Payload.startsKeyFrame(payload.span), "two minds about a key frame")
        require(read.nalTypes != 0 && [24, 28, 29].contains(read.packetType) == (read.packetType > 23), "another type")
    }

    private static func checkAV1(_ payload: [UInt8]) {
        guard let read = AV1Payload(payload.span) else { return }
        require(!(read.startsKeyFrame && read.continuesElement), "a key frame in the middle of an element")
        var cursor = AV1ElementCursor(announcedElementCount: read.announcedElementCount)
        var count = 0
        var end = 1
        while let (offset, byteCount) = cursor.next(in: payload.span) {
            require(offset >= end && offset + byteCount <= payload.count, "an element beyond its payload")
            end = offset + byteCount
            count += 1
            if byteCount > 0 { require(AV1Payload.obuType(payload.span, at: offset) < 16, "a type of five bits") }
        }
        require(count == read.elementCount && !cursor.isMalformed, "two counts of elements")
    }

    private static func checkOpus(_ packet: [UInt8]) {
        guard let toc = OpusTOC(packet.span) else { return }
        require((1...48).contains(toc.frameCount), "\(toc.frameCount) frames")
        require((120...5_760).contains(toc.timestampUnits), "a packet of \(toc.timestampUnits) units")
        _ = (toc.bandwidth, toc.mode)
    }

    /// Dependency descriptors in a row, each with the structure that those before left: what is refused leaves it alone.
    static let dependency = FuzzTarget(
        name: "dependency", byteLimit: 1_024,
        seeds: {
            let elements = vectors("dependency_descriptor", "cases", "unparsable").filter { $0.count < 255 }
            let pieces = elements.map { (element: [UInt8]) -> [UInt8] in [UInt8(element.count)] + element }
            return pieces + [Array(pieces.prefix(8).joined())]
        }
    ) { bytes in
        var input = FuzzInput(bytes)
        var structure = DependencyStructure.create()
        defer { structure.destroy() }
        while !input.isEmpty {
            let element = input.piece()
            let before = (structure.templateCount, structure.targetCount, structure.isKnown)
            let read = DependencyDescriptor(element.span, offset: 0, byteCount: element.count, structure: &structure)
            let isSame = before == (structure.templateCount, structure.targetCount, structure.isKnown)
            require(isSame || read?.hasStructure == true, "a structure changed without one")
            if let read { check(read, structure) }
        }
    }

    private static func check(_ read: DependencyDescriptor, _ structure: DependencyStructure) {
        require(structure.isKnown && structure.templateCount <= DependencyStructure.templateLimit, "too many templates")
        require((1...32).contains(structure.targetCount), "\(structure.targetCount) decode targets")
        require(read.spatialLayer < DependencyStructure.spatialLayerLimit, "spatial layer \(read.spatialLayer)")
        require(read.temporalLayer < DependencyStructure.temporalLayerLimit, "temporal layer \(read.temporalLayer)")
        for target in -1...32 {
            let isTarget = target >= 0 && target < structure.targetCount
            require((structure.layers(ofTarget: target) != nil) == isTarget, "a target that does not exist")
            _ = read.indication(for: target)
        }
        for layer in -1...4 { _ = structure.size(ofSpatialLayer: layer) }
        for limit in UInt8(0)...7 {
            if let target = structure.target(upToTemporal: limit), let layers = structure.layers(ofTarget: target) {
                require(layers.temporal <= limit, "a target above its limit")
            }
            for wanted in UInt8(0)...7 {
                let next = read.temporalLimit(after: limit, wanted: wanted, structure: structure)
                require(next >= min(limit, wanted) && next <= max(limit, wanted), "a limit that nobody wanted")
            }
        }
    }

    /// The packets of an Ogg Opus file are in it, in order. Checksums are made right first, or nothing would get past them.
    static let ogg = FuzzTarget(
        name: "ogg", byteLimit: 4_096,
        seeds: {
            let head: [UInt8] = Array("OpusHead".utf8) + [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            let tags: [UInt8] = Array("OpusTags".utf8) + [UInt8](repeating: 0, count: 8)
            let audio: [[UInt8]] = [[0xF8, 1, 2], [UInt8](repeating: 0xF8, count: 255), [0xF8, 9]]
            let pages = [oggPage([head], number: 0), oggPage([tags], number: 1), oggPage(audio, number: 2)]
            return [Array(pages.joined()), pages[0], pages[0] + pages[1]]
        }
    ) { bytes in
        _ = try? OggOpusFile.packets(bytes)
        var file = bytes
        correctOggChecksums(&file)
        guard let packets = try? OggOpusFile.packets(file) else { return }
        require(packets.reduce(0) { $0 + $1.count } <= file.count, "packets of more bytes than their file")
    }
}

private func oggPage(_ packets: [[UInt8]], number: UInt8) -> [UInt8] {
    let lacing = packets.flatMap { packet in
        [UInt8](repeating: 255, count: packet.count / 255) + [UInt8(packet.count % 255)]
    }
    var page: [UInt8] = Array("OggS".utf8)
    page += [0, number == 0 ? 2 : 0]
    page += [UInt8](repeating: 0, count: 8)
    page += [7, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, UInt8(lacing.count)]
    return page + lacing + Array(packets.joined())
}

/// RFC 3533 §6, written apart from the reader's: bit by bit.
private func correctOggChecksums(_ file: inout [UInt8]) {
    var start = 0
    while start + 27 <= file.count, file[start] == 0x4F {
        let segments = start + 27..<start + 27 + Int(file[start + 26])
        guard segments.upperBound <= file.count else { return }
        let end = file[segments].reduce(segments.upperBound) { $0 + Int($1) }
        guard end <= file.count else { return }
        for index in 22..<26 { file[start + index] = 0 }
        var value: UInt32 = 0
        for byte in file[start..<end] {
            value ^= UInt32(byte) << 24
            for _ in 0..<8 { value = value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1 }
        }
        for index in 0..<4 { file[start + 22 + index] = UInt8(truncatingIfNeeded: value >> UInt32(8 * index)) }
        start = end
    }
}
