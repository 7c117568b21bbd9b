import RTPCore

extension FuzzTarget {
    /// Header, extension elements and padding of an RTP packet lie within it; RTX gives back what it was made from.
    static let rtp = FuzzTarget(
        name: "rtp", byteLimit: 1_500,
        seeds: {
            vectors("rtp_packets", "cases", "drop") + vectors("rtx", "cases", field: "original")
                + vectors("rtx", "cases", field: "rtx") + keptInputs("rtp")
        }
    ) { bytes in
        guard let header = RTPHeader(bytes.span) else { return }
        require(header.headerByteCount <= bytes.count && header.payloadType < 128, "a header beyond its packet")
        for index in 0..<header.csrcCount { _ = header.csrc(at: index, in: bytes.span) }
        checkElements(header, bytes)
        var end = bytes.count
        if header.hasPadding {
            guard let padding = RTPHeader.paddingByteCount(bytes.span, payloadOffset: header.headerByteCount) else {
                return
            }
            end -= padding
        }
        require(end >= header.headerByteCount, "padding reaches into the header")
        checkRepair(header, bytes, end: end)
    }

    private static func checkElements(_ header: RTPHeader, _ bytes: [UInt8]) {
        var cursor = HeaderExtensionCursor(header)
        var last = header.extensionOffset
        let end = header.extensionOffset + header.extensionByteCount
        while let (id, offset, byteCount) = cursor.next(in: bytes.span) {
            require(id > 0 && offset > last - 1 && offset + byteCount <= end, "an element beyond its block")
            last = offset + byteCount
            _ = AudioLevel(bytes.span, offset: offset, byteCount: byteCount)
            _ = VideoOrientation(bytes.span, offset: offset, byteCount: byteCount)
            _ = PlayoutDelay(bytes.span, offset: offset, byteCount: byteCount)
            _ = HeaderExtensionElement.transportSequenceNumber(bytes.span, offset: offset, byteCount: byteCount)
            _ = HeaderExtensionElement.absSendTime(bytes.span, offset: offset, byteCount: byteCount)
            if let text = HeaderExtensionElement.identifier(bytes.span, offset: offset, byteCount: byteCount) {
                require(text.count == byteCount && text.lowerBound == offset, "an identifier elsewhere")
            }
        }
        require(cursor.next(in: bytes.span) == nil, "an element behind the last one")
    }

    private static func checkRepair(_ header: RTPHeader, _ bytes: [UInt8], end: Int) {
        let repeated = written(2_048) { out in
            let fits = RTXPacket.appendRetransmission(
                of: bytes.span, header: header, payloadEnd: end, payloadType: 97, sequenceNumber: 7, ssrc: 9, to: &out)
            require(fits, "a retransmission does not fit")
        }
        guard let again = RTPHeader(repeated.span) else { fatalError("broken promise: RTX without a header") }
        require(again.ssrc == 9 && again.payloadType == 97 && again.timestamp == header.timestamp, "another RTX header")
        let original = written(2_048) { out in
            let fits = RTXPacket.appendOriginal(
                of: repeated.span, header: again, payloadEnd: repeated.count, payloadType: header.payloadType,
                ssrc: header.ssrc, to: &out)
            require(fits, "a retransmission without an original")
        }
        var expected = Array(bytes[..<end])
        expected[0] &= 0xDF
        require(original == expected, "RTX gave back another packet")
    }

    /// The blocks of RED lie within the payload, in order; written again they are the same.
    static let red = FuzzTarget(
        name: "red", byteLimit: 1_500, seeds: { vectors("red", "cases", "unparsable") }
    ) { payload in
        guard var cursor = REDBlockCursor(payload.span) else { return }
        var blocks: [REDBlock] = []
        while let block = cursor.next(in: payload.span) { blocks.append(block) }
        guard let primary = blocks.last else { fatalError("broken promise: RED without a primary") }
        require(
            primary.isPrimary && blocks.dropLast().allSatisfy { !$0.isPrimary }, "the primary is not the last block")
        var at = blocks[0].offset
        for block in blocks {
            require(block.offset == at && block.byteCount >= 0, "a block elsewhere")
            at += block.byteCount
        }
        require(at == payload.count, "blocks end elsewhere than their payload")
        let writable = blocks.dropLast().filter {
            REDWriter.canWrite(timestampOffset: $0.timestampOffset, byteCount: $0.byteCount)
        }
        let again = written(2_048) { out in
            for block in writable {
                let fits = REDWriter.appendBlock(
                    to: &out, payloadType: block.payloadType, timestampOffset: block.timestampOffset,
                    byteCount: block.byteCount)
                require(fits, "a block's header does not fit")
            }
            require(REDWriter.appendPrimary(to: &out, payloadType: primary.payloadType), "no room for the primary")
            for block in writable + [primary] {
                for index in block.offset..<block.offset + block.byteCount { out.append(payload[index]) }
            }
        }
        guard var copy = REDBlockCursor(again.span) else { fatalError("broken promise: RED is not read again") }
        for block in writable + [primary] {
            guard let read = copy.next(in: again.span) else { fatalError("broken promise: a block is missing") }
            require(
                read.payloadType == block.payloadType && read.timestampOffset == block.timestampOffset
                    && read.byteCount == block.byteCount, "another block")
        }
        require(copy.next(in: again.span) == nil, "one block more")
    }

    /// The frames of a stream are the same in whatever pieces its bytes come.
    static let framing = FuzzTarget(
        name: "framing", byteLimit: 4_096,
        seeds: {
            let frames: [[UInt8]] = [[1, 2, 3], [UInt8](repeating: 7, count: 300), [9]]
            let stream = frames.flatMap { (frame: [UInt8]) -> [UInt8] in
                [UInt8(frame.count >> 8), UInt8(frame.count & 255)] + frame
            }
            let heads: [[UInt8]] = [[1, 255, 5], [2, 0, 100], [1, 0, 1, 0, 0]]
            return heads.map { (head: [UInt8]) -> [UInt8] in head + stream }
        }
    ) { bytes in
        var input = FuzzInput(bytes)
        let limit = max(1, Int(input.integer(UInt16.self)))
        let pieceByteCount = 1 + Int(input.byte())
        let stream = input.rest()
        let whole = frames(of: stream, pieceByteCount: max(1, stream.count), limit: limit)
        let pieces = frames(of: stream, pieceByteCount: pieceByteCount, limit: limit)
        require(whole.frames == pieces.frames && whole.refusal == pieces.refusal, "pieces make other frames")
        require(whole.frames.allSatisfy { (1...limit).contains($0.count) }, "an empty or too long frame")
    }

    private static func frames(
        of stream: [UInt8], pieceByteCount: Int, limit: Int
    ) -> (frames: [[UInt8]], refusal: StreamFramer.Refusal?) {
        var framer = StreamFramer(limit: limit)
        var frames: [[UInt8]] = []
        var open: [UInt8] = []
        for start in stride(from: 0, to: stream.count, by: pieceByteCount) {
            let piece = Array(stream[start..<min(stream.count, start + pieceByteCount)])
            var at = 0
            do throws(StreamFramer.Refusal) {
                while let part = try framer.next(in: piece.span, from: at) {
                    require(part.offset == open.count && part.range.lowerBound >= at, "a piece elsewhere in its frame")
                    open += piece[part.range]
                    at = part.range.upperBound
                    guard part.isLast else { continue }
                    frames.append(open)
                    open = []
                }
            } catch {
                return (frames, error)
            }
        }
        return (frames, nil)
    }

    /// An address that is read is written as a text that reads as the same address.
    static let address = FuzzTarget(
        name: "address", byteLimit: 64,
        seeds: {
            [
                "127.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1", "2001:db8::1:2", "::ffff:10.0.0.1",
                "fe80::1%eth0",
                "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4",
            ].map { Array($0.utf8) }
        }
    ) { bytes in
        guard let address = PeerAddress(address: bytes.span, port: 9) else { return }
        let text = address.addressText
        guard let again = PeerAddress(address: text, port: 9) else { fatalError("broken promise: \(text) is not read") }
        require(again == address && again.addressText == text, "\(text) is another address")
        require(address.redacted.utf8.count < 64 && address.text.utf8.count < 64, "a long text")
    }
}
