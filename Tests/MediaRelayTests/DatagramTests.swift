import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// Sockets of one worker as the media loop holds them, and what came in.
final class Endpoint {
    let sockets: [UDPSocket]
    let table: LocalAddressTable
    let reader: DatagramReader
    let writer: DatagramWriter

    init(_ addresses: [String], port: UInt16 = 0, usesSegmentation: Bool = true) throws {
        sockets = try addresses.map { text in
            guard let address = PeerAddress(address: text, port: port) else {
                throw SystemError(text, code: EINVAL)
            }
            return try UDPSocket(binding: address)
        }
        table = LocalAddressTable(sockets: sockets)
        reader = DatagramReader(sockets: sockets, table: table)
        writer = DatagramWriter(sockets: sockets, table: table, usesSegmentation: usesSegmentation)
    }

    func address(_ ip: String, socket: Int = 0) -> PeerAddress {
        guard let address = PeerAddress(address: ip, port: sockets[socket].address.port) else {
            preconditionFailure("\(ip) is no address")
        }
        return address
    }

    struct Received: Equatable {
        var bytes: [UInt8]
        var peer: PeerAddress
        var local: UInt8
    }

    /// Everything that is queued on one socket. Loopback delivers within the send call, so nothing is waited
    /// for.
    func receive(socket: Int = 0) -> [Received] {
        var received: [Received] = []
        var count = DatagramReader.slotCount
        while count == DatagramReader.slotCount {
            let batch = reader.receive(from: socket)
            count = batch.received
            for datagram in UnsafeBufferPointer(start: reader.datagrams, count: batch.count) {
                received.append(
                    Received(
                        bytes: Array(UnsafeBufferPointer(start: datagram.bytes, count: datagram.byteCount)),
                        peer: datagram.peer, local: datagram.local))
            }
        }
        return received
    }

    func send(_ payloads: [[UInt8]], to peer: PeerAddress, local: UInt8 = 0) {
        let batch = TransmitBatch(capacity: max(payloads.count, 1))
        for payload in payloads { batch.append(payload, to: peer, local: local) }
        writer.send(batch)
    }

    /// Sends bytes that do not fit a batch, or none at all.
    func sendRaw(byteCount: Int, to peer: PeerAddress) -> Int {
        var name = lio_name()
        let nameByteCount = lio_write_name(&name, peer.isIPv4 ? 1 : 0, peer.high, peer.low, peer.port)
        let bytes = [UInt8](repeating: 7, count: max(byteCount, 1))
        return withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(sockets[0].descriptor, bytes, byteCount, 0, $0, nameByteCount)
            }
        }
    }
}

extension TransmitBatch {
    func append(_ payload: [UInt8], to peer: PeerAddress, local: UInt8 = 0) {
        guard let slot = reserve() else { preconditionFailure("the test's batch is full") }
        for (index, byte) in payload.enumerated() { slot[index] = byte }
        commit(byteCount: payload.count, to: peer, local: local)
    }
}

/// `count` payloads, each told apart by its first bytes.
func payloads(_ count: Int, byteCount: Int) -> [[UInt8]] {
    (0..<count).map { index in
        [UInt8(index >> 8), UInt8(index & 0xFF)]
            + [UInt8](repeating: UInt8(index & 0xFF), count: byteCount - 2)
    }
}

@Suite struct DatagramTests {
    @Test("an IPv4 datagram arrives with its bytes and its sender's address")
    func ipv4() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        a.send([[1, 2, 3]], to: b.address("127.0.0.1"))
        let received = b.receive()
        #expect(received.map(\.bytes) == [[1, 2, 3]])
        #expect(received.first?.peer == a.address("127.0.0.1"))
    }

    @Test("an IPv6 datagram arrives with its bytes and its sender's address")
    func ipv6() throws {
        let (a, b) = (try Endpoint(["::1"]), try Endpoint(["::1"]))
        a.send([[4, 5]], to: b.address("::1"))
        let received = b.receive()
        #expect(received.map(\.bytes) == [[4, 5]])
        #expect(received.first?.peer == a.address("::1"))
    }

    @Test("a socket bound to :: does not take the IPv4 port")
    func ipv6Only() throws {
        let v6 = try Endpoint(["::"])
        let v4 = try Endpoint(["0.0.0.0"], port: v6.sockets[0].address.port)
        #expect(v4.sockets[0].address.port == v6.sockets[0].address.port)
    }

    @Test("a reply from an IPv4 wildcard socket leaves from the address the datagram came to")
    func wildcardReplyIPv4() throws {
        let (client, relay) = (try Endpoint(["127.0.0.1"]), try Endpoint(["0.0.0.0"]))
        client.send([[1]], to: relay.address("127.0.0.2"))
        let received = try #require(relay.receive().first)
        #expect(received.local != 0)
        relay.send([[2]], to: received.peer, local: received.local)
        #expect(client.receive().map(\.peer) == [relay.address("127.0.0.2")])
    }

    @Test("a reply from an IPv6 wildcard socket leaves from the address the datagram came to")
    func wildcardReplyIPv6() throws {
        let (client, relay) = (try Endpoint(["::1"]), try Endpoint(["::"]))
        client.send([[1]], to: relay.address("::1"))
        let received = try #require(relay.receive().first)
        #expect(received.local != 0)
        relay.send([[2]], to: received.peer, local: received.local)
        #expect(client.receive().map(\.peer) == [relay.address("::1")])
    }

    @Test("two destinations on one wildcard socket get two local addresses, and the same one again the same")
    func localAddressesAreLearnt() throws {
        let (client, relay) = (try Endpoint(["127.0.0.1"]), try Endpoint(["0.0.0.0"]))
        client.send([[1]], to: relay.address("127.0.0.2"))
        client.send([[2]], to: relay.address("127.0.0.3"))
        client.send([[3]], to: relay.address("127.0.0.2"))
        let locals = relay.receive().map(\.local)
        #expect(locals.count == 3)
        #expect(locals[0] == locals[2] && locals[0] != locals[1])
    }

    @Test("past 63 local addresses the kernel chooses")
    func localAddressesAreBounded() throws {
        let (client, relay) = (try Endpoint(["127.0.0.1"]), try Endpoint(["0.0.0.0"]))
        for last in 1...70 { client.send([[UInt8(last)]], to: relay.address("127.0.1.\(last)")) }
        let locals = relay.receive().map(\.local)
        #expect(locals.prefix(63).allSatisfy { $0 != 0 })
        #expect(locals.dropFirst(63) == [0, 0, 0, 0, 0, 0, 0])
        #expect(relay.table.count == LocalAddressTable.capacity)
    }

    @Test("local index 0 sends through the socket of the receiver's family")
    func kernelChoosesSource() throws {
        let (v4, v6) = (try Endpoint(["127.0.0.1"]), try Endpoint(["::1"]))
        let relay = try Endpoint(["127.0.0.1", "::1"])
        relay.send([[4]], to: v4.address("127.0.0.1"))
        relay.send([[6]], to: v6.address("::1"))
        #expect(v4.receive().map(\.bytes) == [[4]])
        #expect(v6.receive().map(\.bytes) == [[6]])
    }

    @Test("with several bound addresses each reply leaves through the socket it came to")
    func severalSockets() throws {
        let client = try Endpoint(["127.0.0.1"])
        let relay = try Endpoint(["127.0.0.2", "127.0.0.3"])
        client.send([[1]], to: relay.address("127.0.0.3", socket: 1))
        let received = try #require(relay.receive(socket: 1).first)
        relay.send([[2]], to: received.peer, local: received.local)
        #expect(client.receive().map(\.peer) == [relay.address("127.0.0.3", socket: 1)])
    }

    @Test("a batch for alternating sockets arrives whole and in order at each receiver")
    func alternatingSockets() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        let relay = try Endpoint(["127.0.0.2", "127.0.0.3"])
        let batch = TransmitBatch(capacity: 200)
        for (index, payload) in payloads(200, byteCount: 60).enumerated() {
            let peer = index % 2 == 0 ? a.address("127.0.0.1") : b.address("127.0.0.1")
            batch.append(payload, to: peer, local: UInt8(1 + index % 2))
        }
        relay.writer.send(batch)
        let all = payloads(200, byteCount: 60)
        #expect(a.receive().map(\.bytes) == stride(from: 0, to: 200, by: 2).map { all[$0] })
        #expect(b.receive().map(\.bytes) == stride(from: 1, to: 200, by: 2).map { all[$0] })
    }

    @Test(
        "more datagrams than one call takes are all sent, in order, and the batch is empty afterwards",
        arguments: [true, false])
    func largeBatch(usesSegmentation: Bool) throws {
        let sender = try Endpoint(["127.0.0.1"], usesSegmentation: usesSegmentation)
        let receiver = try Endpoint(["127.0.0.1"])
        let batch = TransmitBatch(capacity: 512)
        for payload in payloads(512, byteCount: 100) {
            batch.append(payload, to: receiver.address("127.0.0.1"))
        }
        sender.writer.send(batch)
        #expect(batch.count == 0)
        #expect(receiver.receive().map(\.bytes) == payloads(512, byteCount: 100))
        #expect(sender.writer.datagramCount == 512)
        #expect(sender.writer.byteCount == 51_200)
    }

    @Test("neighbours of one size are split by the kernel into the datagrams they were, the last one shorter")
    func segmentation() throws {
        let sender = try Endpoint(["127.0.0.1"])
        let receiver = try Endpoint(["127.0.0.1"])
        let burst = payloads(5, byteCount: 1_100) + [[9, 9, 9]] + payloads(2, byteCount: 1_200)
        sender.send(burst, to: receiver.address("127.0.0.1"))
        #expect(receiver.receive().map(\.bytes) == burst)
    }

    @Test("what goes to one receiver leaves as one message, in order, whatever goes to others in between")
    func chains() throws {
        let sender = try Endpoint(["127.0.0.1"])
        let receivers = try (0..<3).map { _ in try Endpoint(["127.0.0.1"]) }
        let batch = TransmitBatch(capacity: 60)
        let all = payloads(60, byteCount: 700)
        for (index, payload) in all.enumerated() {
            batch.append(payload, to: receivers[index % 3].address("127.0.0.1"))
        }
        sender.writer.send(batch)
        for (number, receiver) in receivers.enumerated() {
            #expect(receiver.receive().map(\.bytes) == stride(from: number, to: 60, by: 3).map { all[$0] })
        }
        #expect(sender.writer.messagesSent == 3)
        #expect(sender.writer.datagramCount == 60)
    }

    @Test("a shorter datagram ends its message and a longer one begins another, and each receiver's order stays")
    func chainEnds() throws {
        let sender = try Endpoint(["127.0.0.1"])
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        let batch = TransmitBatch(capacity: 16)
        let sizes = [500, 500, 200, 500, 900, 900]
        let mine = sizes.enumerated().map { [UInt8](repeating: UInt8($0.offset), count: $0.element) }
        for payload in mine {
            batch.append(payload, to: a.address("127.0.0.1"))
            batch.append([7], to: b.address("127.0.0.1"))
        }
        sender.writer.send(batch)
        #expect(a.receive().map(\.bytes) == mine)
        #expect(b.receive().count == sizes.count)
        // 500, 500 and 200; 500; 900 and 900; and all of the other receiver's.
        #expect(sender.writer.messagesSent == 4)
    }

    @Test("the same receiver by two local addresses is two chains")
    func chainsByLocalAddress() throws {
        let client = try Endpoint(["127.0.0.1"])
        let relay = try Endpoint(["0.0.0.0"])
        client.send([[1]], to: relay.address("127.0.0.2"))
        client.send([[2]], to: relay.address("127.0.0.3"))
        let locals = relay.receive().map(\.local)
        let batch = TransmitBatch(capacity: 8)
        for (index, payload) in payloads(8, byteCount: 300).enumerated() {
            batch.append(payload, to: client.address("127.0.0.1"), local: locals[index % 2])
        }
        relay.writer.send(batch)
        let received = client.receive()
        #expect(received.filter { $0.peer == relay.address("127.0.0.2") }.count == 4)
        #expect(received.filter { $0.peer == relay.address("127.0.0.3") }.count == 4)
        #expect(relay.writer.messagesSent == 2)
    }

    @Test("a segmented reply from a wildcard socket leaves from the address the datagram came to")
    func segmentationWithSource() throws {
        let (client, relay) = (try Endpoint(["127.0.0.1"]), try Endpoint(["0.0.0.0"]))
        client.send([[1]], to: relay.address("127.0.0.9"))
        let received = try #require(relay.receive().first)
        relay.send(payloads(4, byteCount: 900), to: received.peer, local: received.local)
        let replies = client.receive()
        #expect(replies.map(\.bytes) == payloads(4, byteCount: 900))
        #expect(replies.allSatisfy { $0.peer == relay.address("127.0.0.9") })
    }

    @Test(
        "a datagram over the limit is dropped and counted, its neighbours are not",
        arguments: [1_501, 2_048, 2_049, 9_000])
    func oversize(byteCount: Int) throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        a.send([[1]], to: b.address("127.0.0.1"))
        #expect(a.sendRaw(byteCount: byteCount, to: b.address("127.0.0.1")) == byteCount)
        a.send([[2]], to: b.address("127.0.0.1"))
        #expect(b.receive().map(\.bytes) == [[1], [2]])
        #expect(b.reader.oversizeCount == 1)
    }

    @Test("a datagram of exactly the limit is received")
    func atTheLimit() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        #expect(a.sendRaw(byteCount: 1_500, to: b.address("127.0.0.1")) == 1_500)
        #expect(b.receive().map(\.bytes.count) == [1_500])
        #expect(b.reader.oversizeCount == 0)
    }

    @Test("an empty datagram is given on with no bytes, and the one behind it too")
    func emptyDatagram() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        #expect(a.sendRaw(byteCount: 0, to: b.address("127.0.0.1")) == 0)
        a.send([[3]], to: b.address("127.0.0.1"))
        #expect(b.receive().map(\.bytes) == [[], [3]])
    }

    @Test("an unreachable receiver is counted, and the others still get theirs")
    func unreachable() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        let batch = TransmitBatch(capacity: 3)
        batch.append([1], to: b.address("127.0.0.1"))
        batch.append([2], to: PeerAddress(ipv4: 0xC000_0201, port: 9))
        batch.append([3], to: b.address("127.0.0.1"))
        a.writer.send(batch)
        #expect(b.receive().map(\.bytes) == [[1], [3]])
        #expect(a.writer.errors.total == 1)
    }

    @Test("a receiver without a socket of its family is counted, and the others still get theirs")
    func noSocket() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        let batch = TransmitBatch(capacity: 2)
        batch.append([1], to: PeerAddress(high: 0, low: 1, port: 9))
        batch.append([2], to: b.address("127.0.0.1"))
        a.writer.send(batch)
        #expect(b.receive().map(\.bytes) == [[2]])
        #expect(a.writer.errors[.noSocket] == 1)
    }

    @Test("a refused segmented message leaves packet by packet, and segmentation stays on for others")
    func segmentationFallback() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        let batch = TransmitBatch(capacity: 8)
        for payload in payloads(3, byteCount: 50) {
            batch.append(payload, to: PeerAddress(ipv4: 0x7F00_0001, port: 0))
            batch.append(payload, to: b.address("127.0.0.1"))
        }
        a.writer.send(batch)
        #expect(b.receive().map(\.bytes) == payloads(3, byteCount: 50))
        #expect(a.writer.errors.total == 3)
        #expect(a.writer.usesSegmentation)
    }

    @Test("what the kernel dropped before is counted")
    func receiveOverflow() throws {
        let (a, b) = (try Endpoint(["127.0.0.1"]), try Endpoint(["127.0.0.1"]))
        #expect(lio_set_buffers(b.sockets[0].descriptor, 4_096, 4_096) == 0)
        for _ in 0..<20 { a.send(payloads(64, byteCount: 1_000), to: b.address("127.0.0.1")) }
        let early = b.receive().count
        a.send([[1]], to: b.address("127.0.0.1"))
        #expect(b.receive().count == 1)
        #expect(early < 1_280)
        #expect(b.reader.overflowCount == UInt64(1_280 - early))
    }

    @Test("binding a port that is taken says so")
    func addressInUse() throws {
        let first = try Endpoint(["127.0.0.1"])
        let port = first.sockets[0].address.port
        #expect(throws: SystemError("bind UDP 127.0.0.1 port \(port)", code: EADDRINUSE)) {
            _ = try Endpoint(["127.0.0.1"], port: port)
        }
    }
}
