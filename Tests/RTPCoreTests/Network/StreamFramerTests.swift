import RTPCore
import Testing

/// What the framer makes of a stream that comes in these parts: the frames, and the refusal that ended it.
private func frames(_ parts: [[UInt8]], limit: Int = 1_500) -> (
    frames: [[UInt8]], refusal: StreamFramer.Refusal?, framer: StreamFramer
) {
    var framer = StreamFramer(limit: limit)
    var frames: [[UInt8]] = []
    var frame: [UInt8] = []
    for part in parts {
        var at = 0
        while true {
            do throws(StreamFramer.Refusal) {
                guard let piece = try framer.next(in: part.span, from: at) else { break }
                #expect(piece.offset == frame.count)
                #expect(piece.isLast || piece.range.upperBound == part.count)
                frame += part[piece.range]
                #expect(piece.frameByteCount == frame.count)
                at = piece.range.upperBound
                if piece.isLast {
                    frames.append(frame)
                    frame = []
                }
            } catch {
                return (frames, error, framer)
            }
        }
    }
    return (frames, nil, framer)
}

private func framed(_ payloads: [[UInt8]]) -> [UInt8] {
    payloads.flatMap { [UInt8($0.count >> 8), UInt8($0.count & 0xFF)] + $0 }
}

/// Three packets, the middle one longer than 255 bytes, so that both bytes of a length count.
private let packets: [[UInt8]] = [[1], (0..<300).map { UInt8($0 & 0xFF) }, [7, 8, 9]]

@Suite struct StreamFramerTests {
    @Test("frames that come in one piece come out one by one")
    func together() {
        let result = frames([framed(packets)])
        #expect(result.frames == packets)
        #expect(!result.framer.isInsideFrame)
    }

    @Test("wherever a stream is cut in two, its frames are the same")
    func everySplit() {
        let stream = framed(packets)
        for cut in 0...stream.count {
            #expect(frames([Array(stream[..<cut]), Array(stream[cut...])]).frames == packets, "cut at \(cut)")
        }
    }

    @Test("a stream that comes byte by byte, with empty reads between, has the same frames")
    func byteByByte() {
        #expect(frames(framed(packets).flatMap { [[$0], []] }).frames == packets)
    }

    @Test("a stream cut anywhere in three has the same frames")
    func twoSplits() {
        let stream = framed([[1, 2], [3], [4, 5, 6]])
        for first in 0...stream.count {
            for second in first...stream.count {
                let parts = [Array(stream[..<first]), Array(stream[first..<second]), Array(stream[second...])]
                #expect(frames(parts).frames == [[1, 2], [3], [4, 5, 6]])
            }
        }
    }

    @Test("an empty frame is refused when its length is in, and what came before it stands")
    func emptyFrame() {
        let result = frames([framed([[1, 2]]) + [0, 0]])
        #expect(result.frames == [[1, 2]])
        #expect(result.refusal == .emptyFrame)
        #expect(frames([[0]]).refusal == nil)
    }

    @Test("a frame over the limit is refused before any of its bytes came, one at the limit is taken")
    func oversize() {
        #expect(frames([[0x05, 0xDD]], limit: 1_500).refusal == .oversizeFrame)
        #expect(frames([[0xFF, 0xFF]], limit: 1_500).refusal == .oversizeFrame)
        let longest = [UInt8](repeating: 5, count: 1_500)
        #expect(frames([framed([longest])], limit: 1_500).frames == [longest])
    }

    @Test("a frame that has begun is told, from its first length byte to its last byte")
    func insideFrame() {
        let stream = framed([[1, 2, 3]])
        for count in 0...stream.count {
            #expect(frames([Array(stream[..<count])]).framer.isInsideFrame == (1..<stream.count).contains(count))
        }
    }

    @Test("random bytes end in frames within the limit or in a refusal, whatever they are")
    func random() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let parts = (0..<8).map { _ in
                (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...3, using: &random) }
            }
            let result = frames(parts, limit: 600)
            #expect(result.frames.allSatisfy { (1...600).contains($0.count) })
            let byteCount = result.frames.reduce(0) { $0 + $1.count + 2 }
            #expect(byteCount <= parts.reduce(0) { $0 + $1.count })
        }
    }
}
