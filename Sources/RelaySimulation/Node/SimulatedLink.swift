import Glibc
import MediaRelay
import RTPCore

/// One connection between a worker and control as the kernel would carry it: bytes in order, in pieces of any size, each some
/// time under way, no more of them than a socket holds. What was sent before an end is read before it. Confined to one thread.
final class SimulatedLink {
    enum Side: Int { case worker, control }

    /// What one side has sent and the other has not read.
    private struct Flow {
        var pieces: [(at: Instant, bytes: [UInt8])] = []
        var byteCount = 0
        var wantsWriting = false
    }

    final class End: LinkStream {
        private let link: SimulatedLink
        private let side: Side
        fileprivate init(_ link: SimulatedLink, _ side: Side) {
            self.link = link
            self.side = side
        }
        deinit { link.close(side) }
        func send(_ bytes: UnsafeRawPointer, count: Int) -> Int64 { link.send(bytes, count, from: side) }
        func receive(into bytes: UnsafeMutableRawPointer, count: Int) -> Int64 {
            link.receive(bytes, count, at: side)
        }
        func watchWriting(_ isWanted: Bool) { link.flows[side.rawValue].wantsWriting = isWanted }
    }

    private static let capacity = 64 << 10
    private var flows = [Flow(), Flow()]
    private var isClosed = [false, false]
    private let clock: () -> Instant
    private var random: RandomSource
    private(set) var carriedByteCount = 0

    init(seed: UInt64, clock: @escaping () -> Instant) {
        random = .seeded(seed)
        self.clock = clock
    }

    /// One of the two; when it is released that side has closed.
    func end(_ side: Side) -> End { End(self, side) }

    private func other(_ side: Side) -> Int { 1 - side.rawValue }

    private func close(_ side: Side) {
        isClosed[side.rawValue] = true
        flows[other(side)].pieces = []
        flows[other(side)].byteCount = 0
    }

    /// Nothing is under way.
    var isIdle: Bool { flows.allSatisfy { $0.pieces.isEmpty } }
    var isOver: Bool { isClosed[0] && isClosed[1] }

    /// When there is something to read for a side, be it the end.
    func readable(at side: Side) -> Instant {
        guard !isClosed[side.rawValue] else { return .distantFuture }
        if let first = flows[other(side)].pieces.first { return first.at }
        return isClosed[other(side)] ? clock() : .distantFuture
    }

    func isReadable(at side: Side) -> Bool { readable(at: side) <= clock() }

    /// The process on a side has ended: what it sent has arrived.
    func arrive(from side: Side) {
        for index in flows[side.rawValue].pieces.indices { flows[side.rawValue].pieces[index].at = clock() }
    }

    /// A side that waits can send on.
    func isWritable(at side: Side) -> Bool {
        let flow = flows[side.rawValue]
        return flow.wantsWriting && !isClosed[side.rawValue] && flow.byteCount < Self.capacity
    }

    private func send(_ bytes: UnsafeRawPointer, _ count: Int, from side: Side) -> Int64 {
        guard !isClosed[other(side)] else { return Int64(-EPIPE) }
        var count = min(count, Self.capacity - flows[side.rawValue].byteCount)
        guard count > 0 else { return Int64(-EAGAIN) }
        // Cut anywhere, from time to time.
        if random.next() % 4 == 0 { count = 1 + Int(random.next() % UInt64(count)) }
        let draw = random.next()
        let delay = Interval.microseconds(Int64(draw % 16 == 0 ? draw >> 8 % 40_000 : draw >> 8 % 800) + 10)
        let at = max(clock() + delay, flows[side.rawValue].pieces.last?.at ?? clock())
        flows[side.rawValue].pieces.append((at, Array(UnsafeRawBufferPointer(start: bytes, count: count))))
        flows[side.rawValue].byteCount += count
        carriedByteCount += count
        return Int64(count)
    }

    private func receive(_ out: UnsafeMutableRawPointer, _ count: Int, at side: Side) -> Int64 {
        let from = other(side)
        guard let piece = flows[from].pieces.first else { return isClosed[from] ? 0 : Int64(-EAGAIN) }
        guard piece.at <= clock() else { return Int64(-EAGAIN) }
        let taken = min(count, piece.bytes.count)
        piece.bytes.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress { out.copyMemory(from: base, byteCount: taken) }
        }
        if taken == piece.bytes.count {
            flows[from].pieces.removeFirst()
        } else {
            flows[from].pieces[0].bytes.removeFirst(taken)
        }
        flows[from].byteCount -= taken
        return Int64(taken)
    }
}
