import RTPCore
import Testing

@testable import RelayCore

/// What is kept for repairs, for how long, and in how much memory.
@Suite("Packet history") struct PacketHistoryTests {
    private static let keep = Interval.milliseconds(400)

    /// One track that sends 1,000-byte packets at a steady rate.
    private final class Track {
        let history: PacketHistory
        let index: PacketHistory.Index
        let fill: UInt8
        var sequence: UInt64

        init(_ history: PacketHistory, fill: UInt8 = 0, from sequence: UInt64 = 1_000) {
            self.history = history
            self.fill = fill
            self.sequence = sequence
            index = history.makeIndex()
        }

        func send(_ count: Int, each interval: Interval = .milliseconds(5), at start: Instant, apart: Bool = false) {
            for number in 0..<count {
                var bytes = [UInt8](repeating: fill, count: 1_000)
                bytes[0] = 0x80
                bytes[999] = UInt8(truncatingIfNeeded: sequence)
                store(&bytes, apart: apart, now: start + interval * Int64(number))
                sequence += 1
            }
        }

        private func store(_ bytes: inout [UInt8], apart: Bool, now: Instant) {
            let other = bytes
            bytes.withUnsafeBufferPointer { buffer in
                other.withUnsafeBufferPointer { copy in
                    guard let header = buffer.baseAddress, let payload = copy.baseAddress else { return }
                    if history.needsPage(index, byteCount: 1_000) {
                        history.turnPage(index, keep: PacketHistoryTests.keep, now: now)
                    }
                    history.store(
                        index, sequence: sequence, header: header, headerByteCount: 20,
                        payload: (apart ? payload : header) + 20, payloadByteCount: 980)
                }
            }
        }

        /// Whether what is found under `sequence` is what was stored.
        func holds(_ sequence: UInt64) -> Bool {
            guard let found = history.find(index, sequence: sequence), found.byteCount == 1_000,
                found.headerByteCount == 20
            else { return false }
            let middle = (1..<999).allSatisfy { found.packet[$0] == fill }
            return middle && found.packet[0] == 0x80 && found.packet[999] == UInt8(truncatingIfNeeded: sequence)
        }
    }

    private let start = Instant(nanoseconds: 5_000_000_000)

    @Test(
        "a packet is given out as it came, whether its payload lay behind its header or apart",
        arguments: [false, true])
    func found(apart: Bool) {
        let track = Track(PacketHistory(byteCount: 1 << 20), fill: 7)
        track.send(40, at: start, apart: apart)
        for sequence in UInt64(1_000)..<1_040 { #expect(track.holds(sequence)) }
        #expect(!track.holds(999) && !track.holds(1_040))
        track.history.release(track.index)
    }

    @Test("how often a packet was given out is counted") func repeats() {
        let track = Track(PacketHistory(byteCount: 1 << 20))
        track.send(2, at: start)
        #expect((1...3).map { _ in track.history.find(track.index, sequence: 1_000)?.repeats } == [1, 2, 3])
        #expect(track.history.find(track.index, sequence: 1_001)?.repeats == 1)
        track.history.release(track.index)
    }

    @Test("at 200 packets a second the last 400 ms are there, and no more memory is held than they take")
    func sizedByNeed() {
        let track = Track(PacketHistory(byteCount: 8 << 20))
        track.send(2_000, at: start)
        for sequence in track.sequence - 80..<track.sequence { #expect(track.holds(sequence)) }
        // 80 packets of 1,024 bytes are five pages; one more is being filled, one is not past yet as a whole.
        #expect(track.history.heldPageCount <= 8)
        track.history.release(track.index)
        #expect(track.history.heldPageCount == 0)
    }

    @Test("what a higher rate took is given back when the rate falls") func shrinks() {
        let track = Track(PacketHistory(byteCount: 8 << 20))
        track.send(1_000, each: .milliseconds(1), at: start)
        let most = track.history.heldPageCount
        track.send(200, each: .milliseconds(20), at: start + .seconds(2))
        #expect(most >= 25)
        #expect(track.history.heldPageCount <= 4)
        track.history.release(track.index)
    }

    @Test("where all memory is taken a track goes on in its own oldest page, and another one's packets stay")
    func bounded() {
        let history = PacketHistory(byteCount: 8 * PacketHistory.pageByteCount)
        let (first, second) = (Track(history, fill: 1), Track(history, fill: 2, from: 50))
        first.send(60, each: .milliseconds(1), at: start)
        second.send(300, each: .milliseconds(1), at: start + .milliseconds(60))
        #expect(history.heldPageCount == 8)
        for sequence in UInt64(1_000)..<1_060 { #expect(first.holds(sequence)) }
        for sequence in second.sequence - 45..<second.sequence { #expect(second.holds(sequence)) }
        #expect(!second.holds(50))
        history.release(first.index)
        history.release(second.index)
    }

    @Test("a track that finds no page at all keeps nothing and harms nobody") func withoutMemory() {
        let history = PacketHistory(byteCount: 8 * PacketHistory.pageByteCount)
        let (first, second) = (Track(history, fill: 1), Track(history, fill: 2))
        first.send(200, each: .milliseconds(1), at: start)
        second.send(5, at: start + .milliseconds(200))
        #expect(!second.holds(1_000))
        #expect(first.holds(first.sequence - 1))
        history.release(first.index)
        second.send(5, at: start + .seconds(1))
        #expect(second.holds(second.sequence - 1))
        history.release(second.index)
    }

    @Test("a page that another track has written into since is never read under the number of its first owner")
    func reuse() {
        let history = PacketHistory(byteCount: 8 * PacketHistory.pageByteCount)
        let first = Track(history, fill: 1, from: 10)
        first.send(30, each: .milliseconds(100), at: start)
        // What is past was gone on in or given back; the other takes pages of the same memory, under the same numbers.
        let second = Track(history, fill: 2, from: 10)
        second.send(120, each: .milliseconds(1), at: start + .seconds(3))
        for sequence in UInt64(10)..<130 {
            if history.find(first.index, sequence: sequence) != nil { #expect(first.holds(sequence)) }
            if history.find(second.index, sequence: sequence) != nil { #expect(second.holds(sequence)) }
        }
        history.release(first.index)
        history.release(second.index)
    }
}
