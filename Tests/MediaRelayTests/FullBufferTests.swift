import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// A real socket whose buffer is full: loopback of a network namespace of the test's own lets a megabyte a second through
/// (tc-tbf), and the kernel refuses what is more than the socket's small buffer holds. Needs root and iproute2.
enum SlowLoopback {
    /// Only this thread, and what it starts, is in the namespace.
    static func run(_ body: @escaping @Sendable () throws -> Void) throws {
        let outcome = Outcome()
        try Thread(named: "slow-loopback") {
            do {
                try enter()
                try body()
            } catch {
                outcome.error = error
            }
        }.join()
        if let error = outcome.error { throw error }
    }

    private final class Outcome: @unchecked Sendable {
        // @unchecked: read after the thread has ended.
        var error: (any Error)?
    }

    static let isPossible: Bool = {
        do {
            try run {}
            return true
        } catch {
            return false
        }
    }()

    private static func enter() throws {
        typealias Unshare = @convention(c) (Int32) -> Int32
        guard let symbol = dlsym(nil, "unshare") else { throw SystemError("unshare", code: ENOSYS) }
        // CLONE_NEWNET
        guard unsafeBitCast(symbol, to: Unshare.self)(0x4000_0000) == 0 else {
            throw SystemError("unshare", code: errno)
        }
        try command("ip link set lo up")
        try command("tc qdisc add dev lo root tbf rate 8mbit burst 4000 limit 4000000")
    }

    private static func command(_ line: String) throws {
        let texts = ["/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin " + line]
        var words: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let child = words.withUnsafeMutableBufferPointer { buffer -> Int32 in
            guard let base = buffer.baseAddress else { return -EINVAL }
            return lio_spawn_session("/bin/sh", UnsafePointer(base), lio_environment(), 2)
        }
        var status: Int32 = 0
        guard child > 0, waitpid(child, &status, 0) == child, status == 0 else { throw SystemError(line, code: EPERM) }
    }
}

@Suite("Full socket buffers", .serialized, .enabled(if: SlowLoopback.isPossible)) struct FullBufferTests {
    /// A payload tells its rank and its number, and whose it is by its length: sound 100 bytes, others 1,000.
    private static func payload(_ rank: SendRank, _ number: Int) -> [UInt8] {
        [UInt8(rank.rawValue), UInt8(number >> 8), UInt8(number & 0xFF)]
            + [UInt8](repeating: 0, count: rank == .audio ? 97 : 997)
    }

    private struct Pair {
        let sender: Endpoint
        let receiver: Endpoint
        let writer: DatagramWriter

        init() throws {
            sender = try Endpoint(["127.0.0.1"])
            receiver = try Endpoint(["127.0.0.1"])
            writer = DatagramWriter(sockets: sender.sockets, table: sender.table, usesSegmentation: true) {
                bytes, _, _ in
                SendRank(rawValue: Int(bytes[0])) ?? .video
            }
            // The kernel holds about twice that, and takes its own bookkeeping from it.
            #expect(lio_set_buffers(sender.sockets[0].descriptor, 1 << 20, 16_000) == 0)
        }

        func send(_ payloads: [[UInt8]]) {
            let batch = TransmitBatch(capacity: max(1, payloads.count))
            for payload in payloads { batch.append(payload, to: receiver.address("127.0.0.1")) }
            writer.send(batch)
        }

        /// Sends what waits when there is room, as the media loop does, and gives everything that came until nothing has for 300 ms.
        func settle() -> [(rank: SendRank, number: Int)] {
            var came: [(SendRank, Int)] = []
            while true {
                var ends = [
                    pollfd(fd: receiver.sockets[0].descriptor, events: Int16(POLLIN), revents: 0),
                    pollfd(
                        fd: writer.blockedSockets == 0 ? -1 : sender.sockets[0].descriptor, events: Int16(POLLOUT),
                        revents: 0),
                ]
                guard poll(&ends, 2, 300) > 0 else { return came }
                if ends[1].revents != 0 { writer.flushBacklogs() }
                for datagram in receiver.receive() {
                    came.append(
                        (
                            SendRank(rawValue: Int(datagram.bytes[0])) ?? .control,
                            Int(datagram.bytes[1]) << 8 | Int(datagram.bytes[2])
                        ))
                }
            }
        }
    }

    private static func numbers(_ came: [(rank: SendRank, number: Int)], _ rank: SendRank) -> [Int] {
        came.filter { $0.rank == rank }.map(\.number)
    }

    @Test("what had to wait leaves whole, sound first, then pictures, then repairs, each stream in its order")
    func order() throws {
        try SlowLoopback.run {
            let pair = try Pair()
            // Chained by receiver and length: messages of many datagrams, of which the kernel takes some.
            pair.send(
                (0..<20).map { Self.payload(.repair, $0) } + (0..<40).map { Self.payload(.video, $0) }
                    + (0..<40).map { Self.payload(.audio, $0) } + [Self.payload(.control, 0)])
            #expect(pair.writer.blockedSockets == 1)
            let waiting = Int(pair.writer.delayedCount)
            #expect(waiting > 40)
            let came = pair.settle()
            #expect(pair.writer.blockedSockets == 0 && pair.writer.errors.total == 0)
            #expect(Self.numbers(came, .repair).sorted() == Array(0..<20))
            #expect(Self.numbers(came, .video) == Array(0..<40))
            #expect(Self.numbers(came, .audio) == Array(0..<40))
            let delayed = came.suffix(waiting).map(\.rank)
            #expect(delayed == delayed.sorted(by: >), "\(delayed)")
            #expect(pair.writer.datagramCount == 101)
        }
    }

    @Test(
        "under five times what the way carries no sound is lost, repairs go before pictures, and every loss is counted by rank"
    )
    func overload() throws {
        try SlowLoopback.run {
            let pair = try Pair()
            var came: [(rank: SendRank, number: Int)] = []
            for round in 0..<40 {
                pair.send(
                    (0..<20).map { Self.payload(.video, round * 20 + $0) }
                        + (0..<10).map { Self.payload(.repair, round * 10 + $0) } + [Self.payload(.audio, round)])
            }
            came += pair.settle()
            #expect(Self.numbers(came, .audio) == Array(0..<40))
            let lost = SendRank.allCases.map { Int(pair.writer.droppedCount($0)) }
            #expect(lost[SendRank.audio.rawValue] == 0 && lost[SendRank.control.rawValue] == 0)
            #expect(lost[SendRank.video.rawValue] > 100)
            #expect(Self.numbers(came, .video).count == 800 - lost[SendRank.video.rawValue])
            #expect(Self.numbers(came, .repair).count == 400 - lost[SendRank.repair.rawValue])
            #expect(Double(lost[SendRank.repair.rawValue]) / 400 > Double(lost[SendRank.video.rawValue]) / 800)
            #expect(Int(pair.writer.errors[.bufferFull]) == lost.reduce(0, +))
            #expect(Int(pair.writer.datagramCount) + lost.reduce(0, +) == 40 * 31)
        }
    }
}
