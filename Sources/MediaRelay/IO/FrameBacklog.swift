/// What a TCP connection's kernel buffer did not take: the rest of a frame that has begun to leave, and behind it short
/// frames. Bounded: long frames (pictures) are refused while there is a backlog, short ones (sound, checks, feedback) as
/// soon as they do not fit. A frame is in it whole or not at all, so that the stream stays readable.
package struct FrameBacklog {
    package static let capacity = 4_096
    /// Longest frame that waits behind another, bytes: sound at 128 kbit/s is 340 with everything around it.
    package static let shortByteCount = 400

    private let bytes: UnsafeMutablePointer<UInt8>
    private var start = 0
    private var end = 0

    package init() { bytes = .allocate(capacity: Self.capacity) }

    /// Gives the memory back; nothing else may be called any more.
    package func deallocate() { bytes.deallocate() }

    package var isEmpty: Bool { start == end }
    package var byteCount: Int { end - start }

    /// What is to leave next.
    package var pending: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: bytes + start, count: end - start) }

    /// `count` pending bytes have left.
    package mutating func remove(_ count: Int) {
        precondition(count <= end - start, "more left than was there")
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    /// Keeps what of a frame has not left: all but the first `sent` bytes of its length and its bytes.
    /// - Precondition: nothing is pending, and the frame is no longer than a slot of a transmit batch.
    package mutating func keepRest(of frame: UnsafePointer<UInt8>, byteCount: Int, sent: Int) {
        precondition(isEmpty && byteCount + 2 <= Self.capacity, "a frame of \(byteCount) bytes does not fit")
        append(frame, byteCount: byteCount)
        remove(sent)
    }

    /// Takes a whole frame; false when it has to be dropped.
    package mutating func queue(_ frame: UnsafePointer<UInt8>, byteCount: Int) -> Bool {
        guard byteCount <= Self.shortByteCount, self.byteCount + byteCount + 2 <= Self.capacity else { return false }
        append(frame, byteCount: byteCount)
        return true
    }

    private mutating func append(_ frame: UnsafePointer<UInt8>, byteCount: Int) {
        if end + byteCount + 2 > Self.capacity {
            bytes.update(from: bytes + start, count: end - start)
            (start, end) = (0, end - start)
        }
        bytes[end] = UInt8(truncatingIfNeeded: byteCount >> 8)
        bytes[end + 1] = UInt8(truncatingIfNeeded: byteCount)
        (bytes + end + 2).update(from: frame, count: byteCount)
        end += byteCount + 2
    }
}
