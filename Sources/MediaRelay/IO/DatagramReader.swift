import CLinuxIO
import Glibc
import RTPCore

/// Receives datagrams in batches (recvmmsg) into slots that are set up once. Owns the slots and the count of
/// what it refuses: datagrams that are longer than any path's MTU, and those that the kernel dropped before.
/// One thread; no allocation after `init`.
package final class DatagramReader {
    package static let slotCount = 64
    /// More than is ever accepted, so that what is too long shows. An odd number of cache lines: slots whose starts lie a power
    /// of two apart would fight for the same few places of the cache.
    package static let slotByteCount = 1_600
    /// The longest datagram that is accepted: what fits into a TransmitBatch slot with room for our header
    /// and tag.
    package static let maximumByteCount = 1_500

    package struct Datagram {
        /// Valid and writable until the next `receive`.
        package var bytes: UnsafeMutablePointer<UInt8>
        package var byteCount: Int
        package var peer: PeerAddress
        /// Index in the local address table.
        package var local: UInt8
    }

    /// Datagrams that were longer than `maximumByteCount`.
    package private(set) var oversizeCount: UInt64 = 0
    /// Datagrams that the kernel dropped because a socket's buffer was full.
    package private(set) var overflowCount: UInt64 = 0
    package private(set) var datagramCount: UInt64 = 0
    /// Calls that brought at least one datagram.
    package private(set) var batchCount: UInt64 = 0

    private let slots: UnsafeMutablePointer<UInt8>
    private let messages: UnsafeMutablePointer<lio_message>
    private let buffers: UnsafeMutablePointer<lio_buffer>
    private let names: UnsafeMutablePointer<lio_name>
    private let controls: UnsafeMutablePointer<lio_control>
    /// The kernel's overflow count of each socket when it was last told (it wraps).
    private let overflows: UnsafeMutablePointer<UInt32>
    /// How many messages have to be made ready for the next call.
    private var used = DatagramReader.slotCount
    /// The batch at hand.
    package let datagrams: UnsafeMutablePointer<Datagram>
    package let peers: UnsafeMutablePointer<PeerAddress>
    private let sockets: [UDPSocket]
    private let table: LocalAddressTable

    package init(sockets: [UDPSocket], table: LocalAddressTable) {
        let count = Self.slotCount
        self.sockets = sockets
        self.table = table
        slots = UnsafeMutableRawPointer.allocate(byteCount: count * Self.slotByteCount, alignment: 64)
            .assumingMemoryBound(to: UInt8.self)
        messages = .allocate(capacity: count)
        buffers = .allocate(capacity: count)
        names = .allocate(capacity: count)
        controls = .allocate(capacity: count)
        overflows = .allocate(capacity: sockets.count)
        datagrams = .allocate(capacity: count)
        peers = .allocate(capacity: count)
        datagrams.initialize(
            repeating: Datagram(bytes: slots, byteCount: 0, peer: .none, local: 0), count: count)
        messages.initialize(repeating: lio_message(), count: count)
        names.initialize(repeating: lio_name(), count: count)
        controls.initialize(repeating: lio_control(), count: count)
        overflows.initialize(repeating: 0, count: sockets.count)
        for index in 0..<count {
            (buffers + index).initialize(
                to: lio_buffer(base: slots + index * Self.slotByteCount, byte_count: Self.slotByteCount))
            messages[index].name = UnsafeMutableRawPointer(names + index)
            messages[index].buffers = buffers + index
            messages[index].buffer_count = 1
            messages[index].control = UnsafeMutableRawPointer(controls + index)
        }
    }

    deinit {
        slots.deallocate()
        messages.deallocate()
        buffers.deallocate()
        names.deallocate()
        controls.deallocate()
        overflows.deallocate()
        datagrams.deallocate()
        peers.deallocate()
    }

    /// Takes up to 64 queued datagrams from a socket without waiting. Gives how many the kernel had, fewer than 64 when the
    /// queue is empty now, and how many of them are to be worked on: those are in `datagrams`, their senders in `peers`, until
    /// the next call.
    package func receive(from socket: Int) -> (received: Int, count: Int) {
        let received = receiveBatch(from: socket)
        let bound = table.index(ofSocket: socket)
        var count = 0
        for index in 0..<received where read(index, of: socket, bound: bound, into: datagrams + count) {
            peers[count] = datagrams[count].peer
            count &+= 1
        }
        return (received, count)
    }

    private func receiveBatch(from socket: Int) -> Int {
        // The kernel has written into those that it used.
        for index in 0..<used {
            messages[index].name_byte_count = UInt32(MemoryLayout<lio_name>.size)
            messages[index].control_byte_count = MemoryLayout<lio_control>.size
        }
        let descriptor = sockets[socket].descriptor
        let result = Syscall.retrying { lio_receive(descriptor, messages, UInt32(Self.slotCount)) }
        // A message that was begun and not filled is written to as well.
        used = min(Self.slotCount, max(0, Int(result)) + 1)
        guard result > 0 else {
            // EAGAIN: nothing queued. Others (an ICMP error, no memory) concern one datagram of ours or this
            // moment only.
            if result < 0 { Syscall.trapOnBug(-result, "recvmmsg") }
            return 0
        }
        batchCount &+= 1
        datagramCount &+= UInt64(result)
        return Int(result)
    }

    /// False for a datagram that nobody is to see.
    @inline(__always) private func read(
        _ index: Int, of socket: Int, bound: UInt8, into datagram: UnsafeMutablePointer<Datagram>
    ) -> Bool {
        let message = messages + index
        datagram.pointee.local = bound
        if message.pointee.control_byte_count > 0 { readAncillary(message, of: socket, into: datagram) }
        let byteCount = Int(message.pointee.byte_count)
        guard byteCount <= Self.maximumByteCount, message.pointee.flags & LIO_TRUNCATED == 0 else {
            oversizeCount &+= 1
            return false
        }
        datagram.pointee.bytes = slots + index &* Self.slotByteCount
        datagram.pointee.byteCount = byteCount
        return lio_read_name(
            message, &datagram.pointee.peer.high, &datagram.pointee.peer.low, &datagram.pointee.peer.port) == 0
    }

    /// What the kernel told beside the datagram: what it dropped before, and where a wildcard socket's came to.
    private func readAncillary(
        _ message: UnsafeMutablePointer<lio_message>, of socket: Int, into datagram: UnsafeMutablePointer<Datagram>
    ) {
        var ancillary = lio_ancillary()
        lio_read_ancillary(message, &ancillary)
        if ancillary.receive_overflow_count >= 0 {
            let overflow = UInt32(truncatingIfNeeded: ancillary.receive_overflow_count)
            overflowCount &+= UInt64(overflow &- overflows[socket])
            overflows[socket] = overflow
        }
        guard datagram.pointee.local == 0, ancillary.local_high | ancillary.local_low != 0 else { return }
        datagram.pointee.local = table.index(
            ofSocket: socket, high: ancillary.local_high, low: ancillary.local_low,
            interface: ancillary.interface_index)
    }
}
