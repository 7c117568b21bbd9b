import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// Sends a `TransmitBatch` (sendmmsg, at most 64 messages a call), in order for each receiver. Neighbours of
/// equal size to one receiver leave as one message that the kernel splits (UDP GSO), where it can. What goes to a
/// TCP connection is handed to `MediaStreams`. Never
/// waits and never ends anything: what the kernel does not take is dropped and counted by kind. One thread;
/// no allocation after `init`.
package final class DatagramWriter {
    package static let messageCount = 64
    /// Datagrams in one GSO message: the kernel's bound is 64 segments and 65,507 bytes; video bursts are
    /// shorter.
    package static let segmentCount = 16

    package let errors = SendErrorCounters()
    package private(set) var datagramCount: UInt64 = 0
    package private(set) var byteCount: UInt64 = 0
    /// Calls of sendmmsg that sent something.
    package private(set) var batchCount: UInt64 = 0
    /// Whether GSO is used; turned off for good when the kernel or the device refuses it.
    package private(set) var usesSegmentation: Bool

    private let messages: UnsafeMutablePointer<lio_message>
    private let buffers: UnsafeMutablePointer<lio_buffer>
    private let names: UnsafeMutablePointer<lio_name>
    private let controls: UnsafeMutablePointer<lio_control>
    /// Entries before this one leave one by one: their GSO message was refused.
    private var plainUntil = 0
    /// First entry of the batch that each prepared message sends.
    private let firstEntries: UnsafeMutablePointer<Int>
    private let sockets: [UDPSocket]
    private let table: LocalAddressTable
    /// Where packets to peers on TCP connections go.
    private let streams: MediaStreams?

    package init(
        sockets: [UDPSocket], table: LocalAddressTable, usesSegmentation: Bool, streams: MediaStreams? = nil
    ) {
        let count = Self.messageCount
        self.sockets = sockets
        self.table = table
        self.streams = streams
        self.usesSegmentation = usesSegmentation
        messages = .allocate(capacity: count)
        buffers = .allocate(capacity: count * Self.segmentCount)
        names = .allocate(capacity: count)
        controls = .allocate(capacity: count)
        firstEntries = .allocate(capacity: count)
        messages.initialize(repeating: lio_message(), count: count)
        buffers.initialize(repeating: lio_buffer(), count: count * Self.segmentCount)
        names.initialize(repeating: lio_name(), count: count)
        controls.initialize(repeating: lio_control(), count: count)
        firstEntries.initialize(repeating: 0, count: count)
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
        firstEntries.deallocate()
    }

    /// Sends everything in `batch` and empties it.
    package func send(_ batch: TransmitBatch) {
        var next = 0
        plainUntil = 0
        while next < batch.count {
            let (count, socket, end) = prepare(batch, from: next)
            if count > 0 {
                next = flush(batch, count: count, socket: socket, end: end)
            } else {
                next = end < batch.count ? sendToStream(batch, from: end) : end
            }
        }
        batch.removeAll()
    }

    /// Sends what stands at `first` if its peer is on a TCP connection, and its successors to the same one.
    private func sendToStream(_ batch: TransmitBatch, from first: Int) -> Int {
        guard batch.entries[first].peer.isStream else { return first }
        guard let streams else {
            errors.count(.streamClosed)
            return first + 1
        }
        return streams.send(batch, from: first, errors: errors)
    }

    /// Prepares messages from entry `first` on, as long as they leave through one socket. Gives the count of
    /// messages, the socket and the first entry that is not in them.
    private func prepare(_ batch: TransmitBatch, from first: Int) -> (count: Int, socket: Int, end: Int) {
        var count = 0
        var socket = -1
        var next = first
        while next < batch.count, count < Self.messageCount {
            let entry = batch.entries[next]
            if entry.peer.isStream { break }
            guard let source = table.source(of: entry.local, to: entry.peer) else {
                errors.count(.noSocket)
                next += 1
                continue
            }
            guard count == 0 || source.socket == socket else { break }
            socket = source.socket
            let run = usesSegmentation && next >= plainUntil ? runLength(batch, from: next) : 1
            for segment in 0..<run {
                buffers[count * Self.segmentCount + segment] = lio_buffer(
                    base: batch.slots + (next + segment) * TransmitBatch.slotByteCount,
                    byte_count: Int(batch.entries[next + segment].byteCount))
            }
            address(message: count, entry: entry, source: source, run: run)
            firstEntries[count] = next
            count += 1
            next += run
        }
        return (count, socket, next)
    }

    /// How many entries from `first` on go to one receiver with one size (the last may be shorter).
    private func runLength(_ batch: TransmitBatch, from first: Int) -> Int {
        let head = batch.entries[first]
        let limit = min(batch.count, first + Self.segmentCount)
        var next = first + 1
        while next < limit {
            let entry = batch.entries[next]
            guard entry.peer == head.peer, entry.local == head.local, entry.byteCount <= head.byteCount else {
                break
            }
            next += 1
            if entry.byteCount < head.byteCount { break }
        }
        return next - first
    }

    private func address(
        message index: Int, entry: TransmitBatch.Entry, source: LocalAddressTable.Entry, run: Int
    ) {
        let isIPv4: Int32 = entry.peer.isIPv4 ? 1 : 0
        let message = messages + index
        message.pointee.name_byte_count = lio_write_name(
            names + index, isIPv4, entry.peer.high, entry.peer.low, entry.peer.port)
        message.pointee.buffer_count = run
        guard source.namesSource || run > 1 else {
            message.pointee.control = nil
            message.pointee.control_byte_count = 0
            return
        }
        message.pointee.control = UnsafeMutableRawPointer(controls + index)
        message.pointee.control_byte_count = lio_write_ancillary(
            controls + index, isIPv4, source.namesSource ? 1 : 0, source.high, source.low,
            source.interfaceIndex,
            run > 1 ? entry.byteCount : 0)
    }

    /// Hands `count` prepared messages to the kernel. Returns the first entry that remains to be prepared:
    /// `end`, or an earlier one when GSO was refused.
    private func flush(_ batch: TransmitBatch, count: Int, socket: Int, end: Int) -> Int {
        let descriptor = sockets[socket].descriptor
        var sent = 0
        while sent < count {
            let result = Syscall.retrying { lio_send(descriptor, messages + sent, UInt32(count - sent)) }
            if result > 0 {
                batchCount &+= 1
                for index in sent..<sent + Int(result) {
                    datagramCount &+= UInt64(messages[index].buffer_count)
                    byteCount &+= UInt64(messages[index].byte_count)
                }
                sent += Int(result)
                continue
            }
            let code = -result
            Syscall.trapOnBug(code, "sendmmsg")
            let segments = messages[sent].buffer_count
            if segments > 1, code == EIO || code == EINVAL || code == EOPNOTSUPP || code == EMSGSIZE {
                // These packets still can leave one by one. EIO says that the device or kernel cannot do it
                // for anybody; the others may concern this receiver only (its MTU, its port).
                if code == EIO { usesSegmentation = false }
                plainUntil = firstEntries[sent] + segments
                return firstEntries[sent]
            }
            errors.count(SendErrorKind(code), times: segments)
            // The message at the front was refused; a full buffer (EAGAIN) will refuse the rest of this call
            // as well.
            sent += 1
            if code == EAGAIN {
                for index in sent..<count { errors.count(.bufferFull, times: messages[index].buffer_count) }
                return end
            }
        }
        return end
    }
}
