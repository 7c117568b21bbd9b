import CLinuxIO
import Glibc
import MediaRelay
import RTPCore

/// What the load program could not do, said to its user.
package struct LoadFault: Error, CustomStringConvertible {
    package var description: String
    package init(_ description: String) { self.description = description }
}

/// The UDP sockets of thousands of clients, and a batch each way. Owns the descriptors; one thread.
///
/// *Shared*: one socket is all of them: client n is 127.1.0.0 + n, all with one port, told apart by the address that a datagram
/// came to. So packets of many clients are received and sent by one call each, and a generator costs less than what it loads.
/// That works with servers on this machine's loopback only. Otherwise each client has a socket. A burst of one client leaves as
/// one message (UDP GSO) either way.
package final class LoadPort {
    package static let slotCount = 64
    package static let slotByteCount = 1_536
    private static let firstAddress: UInt32 = 0x7F01_0000
    /// Clients that a shared port can stand for.
    package static let capacity = 60_000

    package let isShared: Bool
    /// Readable when datagrams wait for anybody.
    package var descriptor: Int32 { poller?.descriptor ?? shared }
    /// The port of all clients; 0 where each has a socket.
    package let port: UInt16
    /// Datagrams that the kernel dropped because this program was too slow.
    package private(set) var overflowCount: UInt64 = 0
    package private(set) var refusedSends = 0
    private let shared: Int32
    /// By client, where each has one; -1: none.
    private var sockets: [Int32] = []
    private let poller: Poller?
    private var lastOverflow: [Int32: UInt32] = [:]
    private let inbox: UnsafeMutablePointer<UInt8>
    private let outbox: UnsafeMutablePointer<UInt8>
    private let arrived: Messages
    private let leaving: Messages
    /// Who sends each message.
    private let senders: UnsafeMutablePointer<Int>
    /// Packets and messages that wait to be sent.
    private var packetCount = 0
    private var messageCount = 0
    private var lastTarget = PeerAddress.none
    private var segmentByteCount = 0
    private var isOpenEnded = false

    private struct Messages {
        let messages = UnsafeMutablePointer<lio_message>.allocate(capacity: slotCount)
        let buffers = UnsafeMutablePointer<lio_buffer>.allocate(capacity: slotCount)
        let names = UnsafeMutablePointer<lio_name>.allocate(capacity: slotCount)
        let controls = UnsafeMutablePointer<lio_control>.allocate(capacity: slotCount)

        init(_ slots: UnsafeMutablePointer<UInt8>) {
            messages.initialize(repeating: lio_message(), count: slotCount)
            names.initialize(repeating: lio_name(), count: slotCount)
            controls.initialize(repeating: lio_control(), count: slotCount)
            for index in 0..<slotCount {
                (buffers + index).initialize(
                    to: lio_buffer(base: slots + index * slotByteCount, byte_count: slotByteCount))
                messages[index].name = UnsafeMutableRawPointer(names + index)
                messages[index].buffers = buffers + index
                messages[index].buffer_count = 1
                messages[index].control = UnsafeMutableRawPointer(controls + index)
            }
        }

        func deallocate() {
            messages.deallocate()
            buffers.deallocate()
            names.deallocate()
            controls.deallocate()
        }
    }

    package init(isShared: Bool = true) throws {
        self.isShared = isShared
        if isShared {
            shared = lio_udp_socket(1, 1)
            guard shared >= 0, lio_bind(shared, 1, 0, 0xFFFF_0000_0000, 0) == 0 else {
                throw LoadFault("no UDP socket for the clients")
            }
            _ = lio_set_buffers(shared, 32 << 20, 8 << 20)
            guard lio_stamp_arrivals(shared) == 0 else { throw LoadFault("no times of arrival from the kernel") }
            port = UInt16(lio_bound_port(shared))
            poller = nil
        } else {
            shared = -1
            port = 0
            poller = try Poller()
            _ = lio_raise_descriptor_limit()
        }
        inbox = .allocate(capacity: Self.slotCount * Self.slotByteCount)
        outbox = .allocate(capacity: Self.slotCount * Self.slotByteCount)
        senders = .allocate(capacity: Self.slotCount)
        arrived = Messages(inbox)
        leaving = Messages(outbox)
    }

    deinit {
        if shared >= 0 { Glibc.close(shared) }
        for socket in sockets where socket >= 0 { Glibc.close(socket) }
        inbox.deallocate()
        outbox.deallocate()
        senders.deallocate()
        arrived.deallocate()
        leaving.deallocate()
    }

    // MARK: Clients

    /// The address of a client of a shared port, most significant byte first.
    package static func address(_ client: Int) -> UInt32 { firstAddress + UInt32(client) }

    /// What a client may send to `server` from; opens its socket where each has one.
    package func open(_ client: Int, towards server: PeerAddress) throws -> PeerAddress {
        guard !isShared else { return PeerAddress(ipv4: Self.address(client), port: port) }
        while sockets.count <= client { sockets.append(-1) }
        close(client)
        let isIPv4: Int32 = server.isIPv4 ? 1 : 0
        let any = server.isIPv4 ? PeerAddress(ipv4: 0, port: 0) : PeerAddress(high: 0, low: 0, port: 0)
        let socket = lio_udp_socket(isIPv4, 0)
        guard socket >= 0 else { throw LoadFault("no socket for client \(client): \(Syscall.text(of: -socket))") }
        sockets[client] = socket
        guard lio_bind(socket, isIPv4, any.high, any.low, 0) == 0, lio_stamp_arrivals(socket) == 0 else {
            throw LoadFault("no port for client \(client)")
        }
        try poller?.add(socket, token: UInt64(client), for: .reading)
        return PeerAddress(high: any.high, low: any.low, port: UInt16(lio_bound_port(socket)))
    }

    /// The client is gone.
    package func close(_ client: Int) {
        guard !isShared, sockets.indices.contains(client), sockets[client] >= 0 else { return }
        poller?.remove(sockets[client])
        Glibc.close(sockets[client])
        lastOverflow[sockets[client]] = nil
        sockets[client] = -1
    }

    // MARK: Receiving

    package struct Arrival {
        package var bytes: UnsafeMutablePointer<UInt8>
        package var count: Int
        package var client: Int
        package var peer: PeerAddress
        /// In the batch.
        var index: Int
    }

    /// When a packet of the batch at hand reached this machine's socket, CLOCK_REALTIME in nanoseconds: what this program was
    /// busy with then is no part of it.
    func arrivalTime(_ arrival: Arrival) -> Int64 { lio_arrival_ns(arrived.messages + arrival.index) }

    static func wallTime() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Takes datagrams without waiting, up to 64 of each socket; returns how many there were.
    @inline(__always) func receive(_ body: (Arrival) -> Void) -> Int {
        guard let poller else { return receive(from: shared, of: nil, body) }
        let ready = poller.wait(until: Instant(nanoseconds: 0), now: Instant(nanoseconds: 0))
        var count = 0
        for place in 0..<ready {
            let client = Int(poller.event(at: place).token)
            guard sockets[client] >= 0 else { continue }
            count += receive(from: sockets[client], of: client, body)
        }
        return count
    }

    @inline(__always) private func receive(from socket: Int32, of owner: Int?, _ body: (Arrival) -> Void) -> Int {
        for index in 0..<Self.slotCount {
            arrived.messages[index].name_byte_count = UInt32(MemoryLayout<lio_name>.size)
            arrived.messages[index].control_byte_count = MemoryLayout<lio_control>.size
        }
        let count = Int(lio_receive(socket, arrived.messages, UInt32(Self.slotCount)))
        guard count > 0 else { return 0 }
        for index in 0..<count {
            var ancillary = lio_ancillary()
            lio_read_ancillary(arrived.messages + index, &ancillary)
            if ancillary.receive_overflow_count >= 0 {
                let overflow = UInt32(truncatingIfNeeded: ancillary.receive_overflow_count)
                overflowCount += UInt64(overflow &- lastOverflow[socket, default: 0])
                lastOverflow[socket] = overflow
            }
            var peer = PeerAddress.none
            guard lio_read_name(arrived.messages + index, &peer.high, &peer.low, &peer.port) == 0 else { continue }
            let client = owner ?? Int(UInt32(truncatingIfNeeded: ancillary.local_low) &- Self.firstAddress)
            body(
                Arrival(
                    bytes: inbox + index * Self.slotByteCount, count: Int(arrived.messages[index].byte_count),
                    client: client, peer: peer, index: index))
        }
        return count
    }

    // MARK: Sending

    /// Where the next packet is written: 1,536 bytes.
    @inline(__always) func slot() -> UnsafeMutablePointer<UInt8> {
        if packetCount == Self.slotCount { flush() }
        return outbox + packetCount * Self.slotByteCount
    }

    /// The packet in the slot goes from a client to a server: with the one before in one message, where they may be segments
    /// of one.
    func commit(_ byteCount: Int, from client: Int, to target: PeerAddress, joins: Bool) {
        leaving.buffers[packetCount].byte_count = byteCount
        if joins, messageCount > 0, isOpenEnded, client == senders[messageCount - 1], target == lastTarget,
            byteCount <= segmentByteCount
        {
            let message = leaving.messages + (messageCount - 1)
            message.pointee.buffer_count += 1
            setControl(messageCount - 1, client, target, segmentByteCount: UInt16(segmentByteCount))
            isOpenEnded = byteCount == segmentByteCount
        } else {
            let message = leaving.messages + messageCount
            message.pointee.buffers = leaving.buffers + packetCount
            message.pointee.buffer_count = 1
            message.pointee.name_byte_count = lio_write_name(
                leaving.names + messageCount, target.isIPv4 ? 1 : 0, target.high, target.low, target.port)
            setControl(messageCount, client, target, segmentByteCount: 0)
            senders[messageCount] = client
            messageCount += 1
            lastTarget = target
            segmentByteCount = byteCount
            isOpenEnded = true
        }
        packetCount += 1
    }

    @inline(__always) private func setControl(
        _ index: Int, _ client: Int, _ target: PeerAddress, segmentByteCount: UInt16
    ) {
        leaving.messages[index].control = UnsafeMutableRawPointer(leaving.controls + index)
        leaving.messages[index].control_byte_count = lio_write_ancillary(
            leaving.controls + index, target.isIPv4 ? 1 : 0, isShared ? 1 : 0, 0,
            0xFFFF_0000_0000 | UInt64(Self.address(isShared ? client : 0)), 0, segmentByteCount)
    }

    package func flush() {
        var sent = 0
        while sent < messageCount {
            let (socket, end) = run(from: sent)
            let result = socket < 0 ? 0 : Int(lio_send(socket, leaving.messages + sent, UInt32(end - sent)))
            if result > 0 {
                sent += result
            } else {
                refusedSends += Int(leaving.messages[sent].buffer_count)
                sent += 1
            }
        }
        packetCount = 0
        messageCount = 0
    }

    /// The socket of the message at `first`, and the first message behind it that has another one.
    @inline(__always) private func run(from first: Int) -> (socket: Int32, end: Int) {
        if isShared { return (shared, messageCount) }
        let client = senders[first]
        var end = first + 1
        while end < messageCount, senders[end] == client { end += 1 }
        return (sockets.indices.contains(client) ? sockets[client] : -1, end)
    }
}
