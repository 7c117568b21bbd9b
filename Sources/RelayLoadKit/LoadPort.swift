import CLimit
import CLinuxIO
import Glibc
import RTPCore

/// One UDP socket that is thousands of clients: client n is 127.1.0.0 + n, all with one port, told apart by the address that a
/// datagram came to. So packets of many clients are received and sent by one call each, and a generator costs less than what
/// it loads. A burst of one client leaves as one message (UDP GSO). Owns the socket and a batch each way; one thread.
final class LoadPort {
    static let slotCount = 64
    static let slotByteCount = 1_536
    private static let firstAddress: UInt32 = 0x7F01_0000
    /// Clients that a port can stand for.
    static let capacity = 60_000

    let descriptor: Int32
    let port: UInt16
    /// Datagrams that the kernel dropped because this program was too slow.
    private(set) var overflowCount: UInt64 = 0
    private(set) var refusedSends = 0
    private var lastOverflow: UInt32 = 0
    private let inbox: UnsafeMutablePointer<UInt8>
    private let outbox: UnsafeMutablePointer<UInt8>
    private let arrived: Messages
    private let leaving: Messages
    /// Packets and messages that wait to be sent.
    private var packetCount = 0
    private var messageCount = 0
    private var lastSender = -1
    private var lastTarget: UInt16 = 0
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

    init() throws {
        descriptor = lio_udp_socket(1, 1)
        guard descriptor >= 0, lio_bind(descriptor, 1, 0, 0xFFFF_0000_0000, 0) == 0 else {
            throw LoadFailure("no UDP socket for the clients")
        }
        _ = lio_set_buffers(descriptor, 32 << 20, 8 << 20)
        guard limit_stamp_arrivals(descriptor) == 0 else { throw LoadFailure("no times of arrival from the kernel") }
        port = UInt16(lio_bound_port(descriptor))
        inbox = .allocate(capacity: Self.slotCount * Self.slotByteCount)
        outbox = .allocate(capacity: Self.slotCount * Self.slotByteCount)
        arrived = Messages(inbox)
        leaving = Messages(outbox)
    }

    deinit {
        close(descriptor)
        inbox.deallocate()
        outbox.deallocate()
        arrived.deallocate()
        leaving.deallocate()
    }

    /// The address of a client, most significant byte first.
    static func address(_ client: Int) -> UInt32 { firstAddress + UInt32(client) }

    struct Arrival {
        var bytes: UnsafeMutablePointer<UInt8>
        var count: Int
        var client: Int
        var peer: PeerAddress
        /// In the batch.
        var index: Int
    }

    /// When a packet of the batch at hand reached this machine's socket, CLOCK_REALTIME in nanoseconds: what this program was
    /// busy with then is no part of it.
    func arrivalTime(_ arrival: Arrival) -> Int64 { limit_arrival_ns(arrived.messages + arrival.index) }

    static func wallTime() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Takes up to 64 datagrams without waiting; returns how many there were.
    @inline(__always) func receive(_ body: (Arrival) -> Void) -> Int {
        for index in 0..<Self.slotCount {
            arrived.messages[index].name_byte_count = UInt32(MemoryLayout<lio_name>.size)
            arrived.messages[index].control_byte_count = MemoryLayout<lio_control>.size
        }
        let count = Int(lio_receive(descriptor, arrived.messages, UInt32(Self.slotCount)))
        guard count > 0 else { return 0 }
        for index in 0..<count {
            var ancillary = lio_ancillary()
            lio_read_ancillary(arrived.messages + index, &ancillary)
            if ancillary.receive_overflow_count >= 0 {
                let overflow = UInt32(truncatingIfNeeded: ancillary.receive_overflow_count)
                overflowCount += UInt64(overflow &- lastOverflow)
                lastOverflow = overflow
            }
            var peer = PeerAddress.none
            guard lio_read_name(arrived.messages + index, &peer.high, &peer.low, &peer.port) == 0 else { continue }
            let client = Int(UInt32(truncatingIfNeeded: ancillary.local_low) &- Self.firstAddress)
            body(
                Arrival(
                    bytes: inbox + index * Self.slotByteCount, count: Int(arrived.messages[index].byte_count),
                    client: client, peer: peer, index: index))
        }
        return count
    }

    /// Where the next packet is written: 1,536 bytes.
    @inline(__always) func slot() -> UnsafeMutablePointer<UInt8> {
        if packetCount == Self.slotCount { flush() }
        return outbox + packetCount * Self.slotByteCount
    }

    /// The packet in the slot goes from a client to a port of 127.0.0.1: with the one before in one message, where they may
    /// be segments of one.
    func commit(_ byteCount: Int, from client: Int, to target: UInt16, joins: Bool) {
        leaving.buffers[packetCount].byte_count = byteCount
        if joins, packetCount > 0, isOpenEnded, client == lastSender, target == lastTarget,
            byteCount <= segmentByteCount
        {
            let message = leaving.messages + (messageCount - 1)
            message.pointee.buffer_count += 1
            message.pointee.control_byte_count = lio_write_ancillary(
                leaving.controls + (messageCount - 1), 1, 1, 0, 0xFFFF_0000_0000 | UInt64(Self.address(client)), 0,
                UInt16(segmentByteCount))
            isOpenEnded = byteCount == segmentByteCount
        } else {
            let message = leaving.messages + messageCount
            message.pointee.buffers = leaving.buffers + packetCount
            message.pointee.buffer_count = 1
            message.pointee.name_byte_count = lio_write_name(
                leaving.names + messageCount, 1, 0, 0xFFFF_7F00_0001, target)
            message.pointee.control_byte_count = lio_write_ancillary(
                leaving.controls + messageCount, 1, 1, 0, 0xFFFF_0000_0000 | UInt64(Self.address(client)), 0, 0)
            messageCount += 1
            lastSender = client
            lastTarget = target
            segmentByteCount = byteCount
            isOpenEnded = true
        }
        packetCount += 1
    }

    func flush() {
        var sent = 0
        while sent < messageCount {
            let result = Int(lio_send(descriptor, leaving.messages + sent, UInt32(messageCount - sent)))
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
}
