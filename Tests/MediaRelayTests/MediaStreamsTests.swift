import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// `MediaStreams` on a real listener in virtual time, and what it gives to an engine that knows some peers.
private final class StreamRig {
    let listener: StreamListener
    let poller: Poller
    let streams: MediaStreams
    let writer: DatagramWriter
    private let sockets: [UDPSocket]
    var now = Instant(nanoseconds: 1_000_000_000)
    /// Peers that a check has passed from.
    var known: Set<PeerAddress> = []
    /// Every sender becomes known with its first frame.
    var knowsEverybody = false
    private(set) var received: [Received] = []
    private(set) var gone: [PeerAddress] = []

    struct Received {
        var bytes: [UInt8]
        var peer: PeerAddress
    }

    init(change: (inout MediaStreams.Limits) -> Void = { _ in }) throws {
        let loopback = PeerAddress(ipv4: 0x7F00_0001, port: 0)
        listener = try StreamListener(binding: loopback)
        poller = try Poller()
        var limits = MediaStreams.Limits()
        change(&limits)
        streams = try MediaStreams(listeners: [listener], poller: poller, limits: limits)
        sockets = [try UDPSocket(binding: loopback)]
        writer = DatagramWriter(
            sockets: sockets, table: LocalAddressTable(sockets: sockets), usesSegmentation: true, streams: streams)
    }

    func connect(from source: UInt32 = 0x7F00_0001) throws -> StreamSocket {
        try StreamSocket(to: listener.address, from: source)
    }

    /// Does everything that there is to do now.
    func turn() {
        while true {
            let count = poller.wait(until: now, now: now)
            guard count > 0 else { return }
            for index in 0..<count {
                streams.handle(poller.event(at: index), now: now, isKnown: { known.contains($0) }) {
                    bytes, count, peer in
                    let bytes = Array(UnsafeBufferPointer(start: bytes, count: count))
                    received.append(Received(bytes: bytes, peer: peer))
                    if knowsEverybody { known.insert(peer) }
                }
                gone += streams.takeGone()
            }
        }
    }

    func advance(by interval: Interval) {
        now = now + interval
        turn()
        if streams.deadline <= now { streams.sweep(now: now, isKnown: { known.contains($0) }) }
        gone += streams.takeGone()
    }

    /// A proven connection, and how the engine knows it.
    func proven() throws -> (socket: StreamSocket, peer: PeerAddress) {
        let everybody = knowsEverybody
        knowsEverybody = true
        let socket = try connect()
        socket.send(frame: check)
        turn()
        knowsEverybody = everybody
        let last = try #require(received.last)
        received = []
        return (socket, last.peer)
    }

    func send(_ payloads: [[UInt8]], to peer: PeerAddress) {
        let batch = TransmitBatch(capacity: max(1, payloads.count))
        for payload in payloads { batch.append(payload, to: peer) }
        writer.send(batch)
    }
}

/// The first byte says STUN.
private let check: [UInt8] = [0, 1, 0, 0]

@Suite(.serialized) struct MediaStreamsTests {
    @Test("frames come with the connection's own address, in the order in which they were sent")
    func frames() throws {
        let rig = try StreamRig()
        let (a, b) = (try rig.connect(), try rig.connect())
        a.send(frame: check)
        b.send(frame: check + [2])
        a.send(frame: check + [3])
        rig.turn()
        #expect(rig.received.filter { $0.peer.port == a.address.port }.map(\.bytes) == [check, check + [3]])
        #expect(rig.received.filter { $0.peer.port == b.address.port }.map(\.bytes) == [check + [2]])
        #expect(rig.received.allSatisfy { $0.peer.ipv4 == 0x7F00_0001 && $0.peer.isStream })
        #expect(Set(rig.received.map(\.peer.connection)).count == 2)
    }

    @Test("a frame that comes byte by byte is one frame")
    func bytes() throws {
        let rig = try StreamRig()
        let socket = try rig.connect()
        for byte in [0, UInt8(check.count)] + check {
            #expect(rig.received.isEmpty)
            socket.send([byte])
            rig.turn()
        }
        #expect(rig.received.map(\.bytes) == [check])
    }

    @Test("what is sent to a connection arrives framed, beside datagrams for others in the same batch")
    func sending() throws {
        let rig = try StreamRig()
        let (socket, peer) = try rig.proven()
        let other = try Endpoint(["127.0.0.1"])
        let batch = TransmitBatch(capacity: 64)
        let sent = payloads(40, byteCount: 900)
        for (index, payload) in sent.enumerated() {
            batch.append(payload, to: index % 5 == 0 ? other.address("127.0.0.1") : peer)
        }
        rig.writer.send(batch)
        #expect(socket.receive() == sent.indices.filter { $0 % 5 != 0 }.map { sent[$0] })
        #expect(other.receive().map(\.bytes) == sent.indices.filter { $0 % 5 == 0 }.map { sent[$0] })
        #expect(rig.writer.errors.total == 0 && rig.streams.counters.framesSent == 32)
    }

    @Test("a connection over which no check passes is closed after its time, one over which one does stays")
    func unproven() throws {
        let rig = try StreamRig()
        let (proven, _) = try rig.proven()
        let silent = try rig.connect()
        let chatty = try rig.connect()
        rig.turn()
        for _ in 0..<9 {
            rig.advance(by: .seconds(1))
            chatty.send(frame: check)
        }
        #expect(rig.streams.count == 3)
        rig.advance(by: .seconds(1))
        rig.advance(by: .seconds(1))
        _ = (silent.receive(), chatty.receive(), proven.receive())
        #expect(silent.isClosed && chatty.isClosed && !proven.isClosed)
        #expect(rig.streams.counters[.unproven] == 2 && rig.streams.count == 1)
        #expect(rig.gone.count == 2)
    }

    @Test("a connection whose session has gone is closed after its time, unless another begins on it")
    func withoutSession() throws {
        let rig = try StreamRig()
        let (a, peerOfA) = try rig.proven()
        let (b, peerOfB) = try rig.proven()
        rig.known = []
        for _ in 0..<5 { rig.advance(by: .seconds(1)) }
        rig.known = [peerOfB]
        b.send(frame: check)
        for _ in 0..<15 { rig.advance(by: .seconds(1)) }
        _ = (a.receive(), b.receive())
        #expect(a.isClosed && !b.isClosed)
        #expect(rig.gone == [peerOfA] && rig.streams.counters[.withoutSession] == 1)
    }

    @Test("a frame that begins and does not end closes its connection", arguments: [false, true])
    func slowFrame(isProven: Bool) throws {
        let rig = try StreamRig { $0.proof = .seconds(1_000) }
        let socket = isProven ? try rig.proven().socket : try rig.connect()
        socket.send([0, 200])
        rig.turn()
        let patience = isProven ? 30 : 1_000
        for _ in 1..<patience {
            // A byte now and then does not help.
            if rig.now.nanoseconds % 10_000_000_000 == 0 { socket.send([0]) }
            rig.advance(by: .seconds(1))
        }
        #expect(rig.streams.count == 1)
        rig.advance(by: .seconds(1))
        #expect(rig.streams.count == 0)
        #expect(rig.streams.counters[.slowFrame] == 1)
    }

    @Test("more unproven connections than a source, or all together, may have are refused; proven ones do not count")
    func caps() throws {
        let rig = try StreamRig {
            $0.unprovenPerSource = 3
            $0.unproven = 5
            $0.connections = 8
        }
        let proven = try (0..<2).map { _ in try rig.proven().socket }
        var sockets: [StreamSocket] = []
        for source: UInt32 in [1, 2, 3] {
            for _ in 0..<4 {
                sockets.append(try rig.connect(from: 0x7F00_0000 + source))
                rig.turn()
            }
        }
        #expect(rig.streams.count == 7)
        #expect(rig.streams.counters[.tooManyFromSource] == 1)
        #expect(rig.streams.counters[.tooManyUnproven] == 6)
        rig.knowsEverybody = true
        for socket in sockets + proven { socket.send(frame: check) }
        rig.turn()
        for _ in 0..<4 { sockets.append(try rig.connect()) }
        rig.turn()
        #expect(rig.streams.count == 8)
        #expect(rig.streams.counters[.tooMany] == 3)
        // The optimiser lets go of what nobody uses again, and so closes it.
        withExtendedLifetime((sockets, proven)) {}
    }

    @Test("of connections whose sessions are gone no more wait for another one than strangers' may")
    func demoted() throws {
        let rig = try StreamRig { $0.unprovenPerSource = 3 }
        let sockets = try (0..<8).map { _ in try rig.proven().socket }
        rig.known = []
        rig.advance(by: .seconds(1))
        #expect(rig.streams.count == 3 && rig.streams.counters[.withoutSession] == 5)
        let open = sockets.filter { socket in
            _ = socket.receive()
            return !socket.isClosed
        }
        rig.knowsEverybody = true
        for socket in open { socket.send(frame: check) }
        rig.turn()
        for _ in 0..<15 { rig.advance(by: .seconds(1)) }
        #expect(rig.streams.count == 3, "a check proves them again")
        withExtendedLifetime(sockets) {}
    }

    @Test("slots of closed connections are used again, and what is sent to a closed one reaches nobody")
    func slots() throws {
        let rig = try StreamRig()
        var before: PeerAddress?
        for _ in 0..<100 {
            let (socket, peer) = try rig.proven()
            #expect(peer.connection == 1)
            if let before {
                rig.send([[9, 9]], to: before)
                #expect(socket.receive().isEmpty)
            }
            before = peer
            shutdown(socket.descriptor, Int32(SHUT_RDWR))
            rig.turn()
        }
        #expect(rig.writer.errors[.streamClosed] == 99)
        #expect(rig.streams.counters[.byPeer] == 100 && rig.streams.count == 0)
    }

    @Test("a full connection drops whole frames, sound last, and every frame that arrives is whole and in order")
    func full() throws {
        let rig = try StreamRig()
        let (socket, peer) = try rig.proven()
        var long: [[UInt8]] = []
        for number in 0..<4_000 {
            let low = UInt8(number & 0xFF)
            long.append([UInt8(number >> 8), low] + [UInt8](repeating: low, count: 1_198))
            rig.send([long[number]], to: peer)
        }
        let dropped = rig.writer.errors[.streamFull]
        #expect(dropped > 500)
        // The last long one was refused; sound still fits behind what waits.
        let short = (0..<5).map { [UInt8](repeating: $0, count: 160) }
        rig.send(short, to: peer)
        #expect(rig.writer.errors[.streamFull] == dropped)
        var arrived: [[UInt8]] = []
        let limit = MonotonicClock.now() + .seconds(10)
        while arrived.last != short.last, MonotonicClock.now() < limit {
            arrived += socket.receive()
            rig.turn()
        }
        #expect(Array(arrived.suffix(5)) == short)
        let numbers = arrived.dropLast(5).map { Int($0[0]) << 8 | Int($0[1]) }
        #expect(numbers == numbers.sorted() && Set(numbers).count == numbers.count)
        #expect(arrived.dropLast(5).allSatisfy { frame in long[Int(frame[0]) << 8 | Int(frame[1])] == frame })
        #expect(arrived.count + Int(dropped) == 4_005)
        rig.send([[1, 2, 3]], to: peer)
        #expect(socket.receive() == [[1, 2, 3]], "it is as good as new")
    }
}

@Suite struct FrameBacklogTests {
    private func queue(_ backlog: inout FrameBacklog, _ frame: [UInt8]) -> Bool {
        frame.withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { backlog.queue($0, byteCount: bytes.count) } ?? false
        }
    }

    @Test("the rest of a frame goes on where it stopped, whichever byte that was")
    func rest() {
        let frame = (0..<300).map { UInt8($0 & 0xFF) }
        let whole = [1, 44] + frame
        for sent in 0..<whole.count {
            var backlog = FrameBacklog()
            defer { backlog.deallocate() }
            frame.withUnsafeBufferPointer { bytes in
                if let base = bytes.baseAddress { backlog.keepRest(of: base, byteCount: bytes.count, sent: sent) }
            }
            #expect(Array(backlog.pending) == Array(whole[sent...]))
        }
    }

    @Test("short frames are queued in order until they do not fit, long ones never")
    func short() {
        var backlog = FrameBacklog()
        defer { backlog.deallocate() }
        #expect(!queue(&backlog, [UInt8](repeating: 0, count: FrameBacklog.shortByteCount + 1)))
        var expected: [UInt8] = []
        for number in 0..<11 {
            let frame = [UInt8](repeating: UInt8(number), count: 370)
            let fits = expected.count + 372 <= FrameBacklog.capacity
            #expect(queue(&backlog, frame) == fits)
            if fits { expected += [1, 114] + frame }
        }
        #expect(Array(backlog.pending) == expected && expected.count == 11 * 372)
        #expect(!queue(&backlog, [UInt8](repeating: 9, count: 370)))
        // What left makes room at the end as well.
        backlog.remove(372)
        #expect(queue(&backlog, [UInt8](repeating: 9, count: 370)))
        let last = [1, 114] + [UInt8](repeating: 9, count: 370)
        #expect(Array(backlog.pending) == Array(expected[372...]) + last)
        backlog.remove(backlog.byteCount)
        #expect(backlog.isEmpty)
    }
}
