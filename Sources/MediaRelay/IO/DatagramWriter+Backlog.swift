import CLinuxIO
import Glibc
import RTPCore
import RelayCore

// What happens when the kernel does not take all, as a socket's buffer is full: the datagrams are kept one by one, whatever message they
// were chained in, and leave by their worth as soon as there is room: sound before pictures, pictures before their repairs. While a
// socket has a backlog everything that is to leave through it goes that way, so that nothing overtakes its own stream.

extension DatagramWriter {
    /// Datagrams given up for want of room, by rank.
    package func droppedCount(_ rank: SendRank) -> UInt64 { backlogs.reduce(0) { $0 + $1.dropped[rank.rawValue] } }

    /// Sends what waits, as far as it goes. To be called when a blocked socket has room; `send` does so by itself.
    package func flushBacklogs() {
        let now = MonotonicClock.now()
        for socket in sockets.indices where blocked & 1 << UInt32(socket) != 0 {
            errors.count(.bufferFull, times: backlogs[socket].expire(now: now))
            flushBacklog(socket)
            if backlogs[socket].isEmpty { blocked &= ~(1 << UInt32(socket)) }
        }
    }

    /// Takes over prepared messages that the kernel did not take, before their memory is used again.
    func keep(_ range: Range<Int>, socket: Int) {
        let now = MonotonicClock.now()
        blocked |= 1 << UInt32(socket)
        for index in range {
            let chain = chains[index].pointee
            let message = messages[index]
            for segment in 0..<message.buffer_count {
                let buffer = message.buffers[segment]
                let bytes = buffer.base.assumingMemoryBound(to: UInt8.self)
                let entry = TransmitBatch.Entry(
                    peer: chain.peer, byteCount: UInt16(buffer.byte_count), local: chain.local)
                let worth = rank(bytes, buffer.byte_count, chain.peer)
                errors.count(.bufferFull, times: backlogs[socket].keep(bytes, entry, rank: worth, now: now))
                delayed &+= 1
            }
        }
    }

    private func flushBacklog(_ socket: Int) {
        let (backlog, descriptor) = (backlogs[socket], sockets[socket].descriptor)
        while !backlog.isEmpty {
            var count = 0
            _ = backlog.first(Self.messageCount) { bytes, entry in
                guard let source = table.source(of: entry.local, to: entry.peer) else {
                    preconditionFailure("a datagram was kept for a socket that its receiver has not")
                }
                begin(count, entry, bytes, from: source)
                count += 1
            }
            let result = Syscall.retrying { lio_send(descriptor, messages, UInt32(count)) }
            if result > 0 {
                note(0..<Int(result))
                backlog.removeFirst(Int(result))
                continue
            }
            Syscall.trapOnBug(-result, "sendmmsg")
            guard result != -EAGAIN else { return }
            errors.count(SendErrorKind(-result))
            backlog.removeFirst(1)
        }
    }
}
