import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// Sends a `TransmitBatch` (sendmmsg, at most 64 messages a call). What goes to one receiver is chained, in order: those of
/// equal size leave as one message that the kernel splits (UDP GSO), where it can, whatever goes to others in between. So a
/// picture's packets leave together, and nothing waits for a later batch. What goes to a TCP connection is handed to
/// `MediaStreams`. Never waits and never ends anything: what the kernel does not take is dropped and counted by kind, but for
/// what a full buffer refuses: that is kept by its worth for a moment (`DatagramWriter+Backlog.swift`). One thread; no allocation
/// after `init` until then.
package final class DatagramWriter {
    package static let messageCount = 64
    /// Datagrams in one GSO message (the kernel's bound is 64), and their bytes (65,507).
    package static let segmentCount = 32
    static let messageByteCount = 65_000

    package let errors = SendErrorCounters()
    // Swift checks each access to what other modules can see of a class, so those read copies.
    package var datagramCount: UInt64 { sentDatagrams }
    package var byteCount: UInt64 { sentBytes }
    /// What the kernel was given to send: datagrams, and several of them in one.
    package var messagesSent: UInt64 { sentMessages }
    /// Calls of sendmmsg that sent something.
    package var batchCount: UInt64 { sentBatches }
    /// Whether GSO is used; turned off for good when the kernel or the device refuses it.
    package var usesSegmentation: Bool { joins }
    /// Tells what a datagram is worth, when it can not leave.
    package typealias Ranking = (UnsafePointer<UInt8>, Int, PeerAddress) -> SendRank
    let rank: Ranking
    /// By socket.
    let backlogs: [SendBacklog]
    /// Sockets with a backlog: bit i is socket i.
    package var blockedSockets: UInt32 { blocked }
    /// Datagrams that had to wait.
    package var delayedCount: UInt64 { delayed }
    var blocked: UInt32 = 0
    var delayed: UInt64 = 0
    private var sentDatagrams: UInt64 = 0
    private var sentBytes: UInt64 = 0
    private var sentMessages: UInt64 = 0
    private var sentBatches: UInt64 = 0
    private var joins: Bool

    let messages: UnsafeMutablePointer<lio_message>
    private let buffers: UnsafeMutablePointer<lio_buffer>
    private let names: UnsafeMutablePointer<lio_name>
    private let controls: UnsafeMutablePointer<lio_control>
    private(set) var chains: SendChains
    let sockets: [UDPSocket]
    let table: LocalAddressTable
    /// Where packets to peers on TCP connections go.
    private let streams: MediaStreams?

    package init(
        sockets: [UDPSocket], table: LocalAddressTable, usesSegmentation: Bool, streams: MediaStreams? = nil,
        rank: @escaping Ranking = { _, _, _ in .video }
    ) {
        let count = Self.messageCount
        precondition(sockets.count <= 32, "\(sockets.count) media sockets")
        self.rank = rank
        backlogs = sockets.map { _ in SendBacklog() }
        self.sockets = sockets
        self.table = table
        self.streams = streams
        joins = usesSegmentation
        messages = .allocate(capacity: count)
        buffers = .allocate(capacity: count * Self.segmentCount)
        names = .allocate(capacity: count)
        controls = .allocate(capacity: count)
        chains = SendChains(count: count)
        messages.initialize(repeating: lio_message(), count: count)
        buffers.initialize(repeating: lio_buffer(), count: count * Self.segmentCount)
        names.initialize(repeating: lio_name(), count: count)
        controls.initialize(repeating: lio_control(), count: count)
        for index in 0..<count {
            messages[index].name = UnsafeMutableRawPointer(names + index)
            messages[index].buffers = buffers + index * Self.segmentCount
        }
    }

    deinit {
        messages.deallocate()
        buffers.deallocate()
        names.deallocate()
        controls.deallocate()
        chains.destroy()
    }

    /// Sends everything in `batch` and empties it.
    package func send(_ batch: TransmitBatch) {
        if blocked != 0 { flushBacklogs() }
        var next = 0
        let end = batch.count
        while next < end {
            let prepared = prepare(batch, next..<end)
            if prepared.count > 0 { flush(count: prepared.count, socket: prepared.socket) }
            next = prepared.end
        }
        batch.removeAll()
    }

    // MARK: - Messages

    /// Makes messages of the entries in `range`, as long as there is room for them and they leave through one socket. Gives
    /// the count of messages, the socket and the first entry that is not in them.
    private func prepare(_ batch: TransmitBatch, _ range: Range<Int>) -> (count: Int, socket: Int, end: Int) {
        var count = 0
        var socket = -1
        var next = range.lowerBound
        chains.start()
        var place = chains.firstPlace
        // The message that the entry before went into, which is `place`'s; -1: none.
        var latest = -1
        while next < range.upperBound {
            let entry = batch.entries[next]
            if entry.peer.isStream {
                next = sendToStream(batch, from: next)
                continue
            }
            let bytes = batch.slots + next &* TransmitBatch.slotByteCount
            // Bursts of one sender go to one receiver: no need to look for its place again.
            if latest < 0 || !chains.isTo(entry, latest) { place = chains.place(of: entry) }
            if let message = chains.message(at: place), add(entry, bytes, to: message) {
                latest = message
                next &+= 1
                continue
            }
            guard count < Self.messageCount else { break }
            guard let source = table.source(of: entry.local, to: entry.peer) else {
                errors.count(.noSocket)
                latest = -1
                next &+= 1
                continue
            }
            guard count == 0 || source.pointee.socket == socket else { break }
            socket = source.pointee.socket
            begin(count, entry, bytes, from: source)
            if joins { chains.set(count, at: place) }
            latest = count
            count &+= 1
            next &+= 1
        }
        return (count, socket, next)
    }

    /// Adds a datagram to its receiver's newest message; false where it has to begin another one.
    @inline(__always) private func add(
        _ entry: TransmitBatch.Entry, _ bytes: UnsafeMutablePointer<UInt8>, to index: Int
    ) -> Bool {
        let chain = chains[index]
        let message = messages + index
        let used = message.pointee.buffer_count
        guard !chain.pointee.isClosed, entry.byteCount <= chain.pointee.segmentByteCount, used < Self.segmentCount,
            Int(chain.pointee.byteCount) &+ Int(entry.byteCount) <= Self.messageByteCount
        else { return false }
        chain.pointee.isClosed = entry.byteCount < chain.pointee.segmentByteCount
        chain.pointee.byteCount &+= Int32(entry.byteCount)
        message.pointee.buffers[used] = lio_buffer(base: bytes, byte_count: Int(entry.byteCount))
        message.pointee.buffer_count = used &+ 1
        if used == 1, let source = table.source(of: entry.local, to: entry.peer) {
            setControl(index, to: entry.peer, from: source, segmentByteCount: chain.pointee.segmentByteCount)
        }
        return true
    }

    /// Begins message `index` with one datagram.
    @inline(__always) func begin(
        _ index: Int, _ entry: TransmitBatch.Entry, _ bytes: UnsafeMutablePointer<UInt8>,
        from source: UnsafePointer<LocalAddressTable.Entry>
    ) {
        let message = messages + index
        message.pointee.name_byte_count = lio_write_name(
            names + index, entry.peer.isIPv4 ? 1 : 0, entry.peer.high, entry.peer.low, entry.peer.port)
        message.pointee.buffers[0] = lio_buffer(base: bytes, byte_count: Int(entry.byteCount))
        message.pointee.buffer_count = 1
        chains.begin(index, with: entry)
        if source.pointee.namesSource {
            setControl(index, to: entry.peer, from: source, segmentByteCount: 0)
        } else {
            message.pointee.control = nil
            message.pointee.control_byte_count = 0
        }
    }

    /// - Parameter segmentByteCount: 0: the message is one datagram.
    private func setControl(
        _ index: Int, to peer: PeerAddress, from source: UnsafePointer<LocalAddressTable.Entry>,
        segmentByteCount: UInt16
    ) {
        messages[index].control = UnsafeMutableRawPointer(controls + index)
        messages[index].control_byte_count = lio_write_ancillary(
            controls + index, peer.isIPv4 ? 1 : 0, source.pointee.namesSource ? 1 : 0, source.pointee.high,
            source.pointee.low, source.pointee.interfaceIndex, segmentByteCount)
    }

    /// Sends what stands at `first`, whose peer is on a TCP connection, and its successors to the same one.
    private func sendToStream(_ batch: TransmitBatch, from first: Int) -> Int {
        guard let streams else {
            errors.count(.streamClosed)
            return first + 1
        }
        return streams.send(batch, from: first, errors: errors)
    }

    // MARK: - The kernel

    /// Hands `count` prepared messages to the kernel.
    private func flush(count: Int, socket: Int) {
        if blocked != 0, blocked & 1 << UInt32(socket) != 0 { return keep(0..<count, socket: socket) }
        let descriptor = sockets[socket].descriptor
        var sent = 0
        while sent < count {
            let result = Syscall.retrying { lio_send(descriptor, messages + sent, UInt32(count - sent)) }
            if result > 0 {
                note(sent..<sent + Int(result))
                sent += Int(result)
                continue
            }
            let code = -result
            Syscall.trapOnBug(code, "sendmmsg")
            let segments = messages[sent].buffer_count
            if segments > 1, code == EIO || code == EINVAL || code == EOPNOTSUPP || code == EMSGSIZE {
                // These packets still can leave one by one. EIO says that the device or kernel cannot do it
                // for anybody; the others may concern this receiver only (its MTU, its port).
                if code == EIO { joins = false }
                sendApart(sent, descriptor)
                sent += 1
                continue
            }
            // A full buffer will refuse the rest of this call as well.
            if code == EAGAIN { return keep(sent..<count, socket: socket) }
            // The message at the front was refused.
            errors.count(SendErrorKind(code), times: segments)
            sent += 1
        }
    }

    func note(_ sent: Range<Int>) {
        var datagrams: UInt64 = 0
        var bytes: UInt64 = 0
        for index in sent {
            datagrams &+= UInt64(messages[index].buffer_count)
            bytes &+= UInt64(messages[index].byte_count)
        }
        sentBatches &+= 1
        sentMessages &+= UInt64(sent.count)
        sentDatagrams &+= datagrams
        sentBytes &+= bytes
    }

    /// Sends the datagrams of a message whose segmentation was refused, one by one.
    private func sendApart(_ index: Int, _ descriptor: Int32) {
        let (peer, local) = (chains[index].pointee.peer, chains[index].pointee.local)
        if let source = table.source(of: local, to: peer), source.pointee.namesSource {
            setControl(index, to: peer, from: source, segmentByteCount: 0)
        } else {
            messages[index].control = nil
            messages[index].control_byte_count = 0
        }
        var single = messages[index]
        single.buffer_count = 1
        for segment in 0..<messages[index].buffer_count {
            single.buffers = messages[index].buffers + segment
            let result = Syscall.retrying { lio_send(descriptor, &single, 1) }
            if result > 0 {
                sentBatches &+= 1
                sentMessages &+= 1
                sentDatagrams &+= 1
                sentBytes &+= UInt64(single.byte_count)
            } else {
                Syscall.trapOnBug(-result, "sendmmsg")
                errors.count(SendErrorKind(-result))
            }
        }
    }
}
