/// Bytes that wait for a reader, in the pieces they were given: a broadcast's bytes are shared by all queues
/// they are in.
///
/// Each piece is charged 32 bytes beyond its own, so that a flood of tiny pieces meets the same bound.
package struct OutputQueue {
    package static let pieceByteCount = 32

    private var pieces: [[UInt8]] = []
    private var firstPiece = 0
    private var firstByte = 0
    /// What the queue is charged, bytes.
    package private(set) var byteCount = 0

    package init() {}

    package var isEmpty: Bool { firstPiece == pieces.count }

    package mutating func append(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        pieces.append(bytes)
        byteCount += bytes.count + Self.pieceByteCount
    }

    /// The bytes to send next. Precondition: not empty.
    package func withFirst<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        pieces[firstPiece].withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[firstByte...])) }
    }

    /// Forgets bytes that were sent from the first piece.
    package mutating func removeFirst(_ count: Int) {
        firstByte += count
        byteCount -= count
        precondition(firstByte <= pieces[firstPiece].count, "more was sent than there is")
        guard firstByte == pieces[firstPiece].count else { return }
        pieces[firstPiece] = []
        byteCount -= Self.pieceByteCount
        firstPiece += 1
        firstByte = 0
        if firstPiece == pieces.count {
            pieces = []
            firstPiece = 0
        } else if firstPiece == 64 {
            pieces.removeFirst(firstPiece)
            firstPiece = 0
        }
    }
}
