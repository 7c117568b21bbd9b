import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// What a full buffer did not take, without a socket.
@Suite("What waits to be sent") struct SendBacklogTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let peer = PeerAddress(ipv4: 0x7F00_0001, port: 9)

    private func keep(_ backlog: SendBacklog, _ number: Int, _ rank: SendRank, after wait: Interval = .zero) -> Int {
        let bytes: [UInt8] = [UInt8(number >> 8), UInt8(number & 0xFF), UInt8(rank.rawValue)]
        return bytes.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return 0 }
            return backlog.keep(
                base, TransmitBatch.Entry(peer: peer, byteCount: 3, local: 0), rank: rank, now: start + wait)
        }
    }

    private func order(_ backlog: SendBacklog, _ limit: Int = 1_000) -> [Int] {
        var numbers: [Int] = []
        _ = backlog.first(limit) { bytes, _ in numbers.append(Int(bytes[0]) << 8 | Int(bytes[1])) }
        return numbers
    }

    @Test("control leaves before sound, sound before pictures, pictures before repairs, each in its order")
    func order() {
        let backlog = SendBacklog()
        for (number, rank) in [SendRank.repair, .video, .audio, .control, .video, .audio, .repair].enumerated() {
            #expect(keep(backlog, number, rank) == 0)
        }
        #expect(order(backlog) == [3, 2, 5, 1, 4, 0, 6])
        #expect(order(backlog, 2) == [3, 2])
        backlog.removeFirst(3)
        #expect(order(backlog) == [1, 4, 0, 6])
        #expect(keep(backlog, 9, .audio) == 0)
        #expect(order(backlog) == [9, 1, 4, 0, 6] && backlog.count == 5)
    }

    @Test(
        "a full backlog gives up repairs first, then pictures, then sound, the oldest of each, and counts them by rank")
    func full() {
        let backlog = SendBacklog()
        for number in 0..<SendBacklog.capacity {
            let rank: SendRank = number < 2 ? .repair : number < 4 ? .video : .audio
            #expect(keep(backlog, number, rank) == 0)
        }
        #expect(keep(backlog, 1_000, .repair) == 1)
        #expect(backlog.dropped == [1, 0, 0, 0], "the oldest repair for a newer one")
        for number in 1_001..<1_005 { #expect(keep(backlog, number, .audio) == 1) }
        #expect(backlog.dropped == [3, 2, 0, 0])
        #expect(keep(backlog, 2_000, .video) == 1)
        #expect(backlog.dropped == [3, 3, 0, 0], "there is nothing of less worth")
        for number in 3_000..<3_010 { #expect(keep(backlog, number, .control) == 1) }
        #expect(backlog.count == SendBacklog.capacity)
        #expect(order(backlog, 10) == Array(3_000..<3_010))
        #expect(backlog.dropped == [3, 3, 10, 0])
    }

    @Test("what has waited for 200 ms is given up, and its place is used again")
    func expiry() {
        let backlog = SendBacklog()
        _ = keep(backlog, 1, .video)
        _ = keep(backlog, 2, .audio, after: .milliseconds(150))
        #expect(backlog.expire(now: start + .milliseconds(200)) == 0)
        #expect(backlog.expire(now: start + .milliseconds(201)) == 1)
        #expect(order(backlog) == [2] && backlog.dropped == [0, 1, 0, 0])
        for number in 3..<100 { _ = keep(backlog, number, .audio, after: .milliseconds(201)) }
        #expect(order(backlog) == Array(2..<100))
        #expect(backlog.expire(now: start + .seconds(9)) == 98 && backlog.isEmpty)
    }
}
