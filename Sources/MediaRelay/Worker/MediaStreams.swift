import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// The TCP side of a worker's media: listeners, connections in numbered slots, and their bounds. A connection is to the
/// engine one more kind of address: `PeerAddress.connection` is its slot, counted from 1. Decides which connections are
/// taken and how long they may stay; who speaks over them, and what, is the engine's. Confined to the media loop's thread.
package final class MediaStreams {
    package struct Limits: Sendable {
        /// Connections at once; at most 65,535.
        package var connections = 4_096
        /// Over which no check has passed yet: all, and from one source.
        package var unproven = 1_024
        package var unprovenPerSource = 64
        /// How long a connection may be without a session.
        package var proof = Interval.seconds(10)
        /// How long a frame may take, of a proven connection: what the network holds up for longer ends the session.
        package var frame = Interval.seconds(30)
        package init() {}

        /// Leaves room for the descriptors of everything else, where the process may not have enough for all connections.
        package mutating func fit(descriptors: Int64) {
            connections = min(connections, max(16, Int(descriptors) - 256))
            unproven = min(unproven, connections / 4 * 3)
        }
    }

    /// Poller tokens: connection slots and listeners from here on.
    package static let firstConnectionToken: UInt64 = 1 << 32
    package static let firstListenerToken: UInt64 = 1 << 33
    private static let sweepInterval = Interval.seconds(1)
    /// Connections taken from one listener in one turn.
    private static let acceptCount = 64
    /// Bytes read from one connection in one turn.
    private static let readByteCount = 64 << 10

    package let counters = MediaStreamCounters()
    /// When `sweep` is wanted next; `distantFuture` without connections.
    package private(set) var deadline = Instant.distantFuture
    package var count: Int { admission.count }

    private let listeners: [StreamListener]
    private let poller: Poller
    private let limits: Limits
    private var admission: StreamAdmission
    private var connections: [StreamConnection?] = []
    private var freeSlots: [Int] = []
    private var isAccepting = true
    private var gone: [PeerAddress] = []
    private let input: UnsafeMutablePointer<UInt8>
    private let buffers: UnsafeMutablePointer<lio_buffer>
    private let lengths: UnsafeMutablePointer<UInt8>

    package init(listeners: [StreamListener], poller: Poller, limits: Limits = Limits()) throws(SystemError) {
        precondition((1...65_535).contains(limits.connections), "\(limits.connections) connections")
        self.listeners = listeners
        self.poller = poller
        self.limits = limits
        admission = StreamAdmission(
            limit: limits.connections, unprovenLimit: limits.unproven, sourceLimit: limits.unprovenPerSource)
        input = .allocate(capacity: Self.readByteCount)
        buffers = .allocate(capacity: 2 * StreamConnection.frameCount)
        lengths = .allocate(capacity: 2 * StreamConnection.frameCount)
        for (index, listener) in listeners.enumerated() {
            try poller.add(listener.descriptor, token: Self.firstListenerToken + UInt64(index), for: .reading)
        }
    }

    deinit {
        input.deallocate()
        buffers.deallocate()
        lengths.deallocate()
    }

    /// What the poller told of a listener or a connection. `receive` gets each frame that came, and its sender; `isKnown`
    /// says whether a check of that sender has passed.
    package func handle(
        _ event: Poller.Event, now: Instant, isKnown: (PeerAddress) -> Bool,
        receive: (UnsafeMutablePointer<UInt8>, Int, PeerAddress) -> Void
    ) {
        if event.token >= Self.firstListenerToken {
            return accept(Int(event.token - Self.firstListenerToken), now: now)
        }
        let slot = Int(event.token - Self.firstConnectionToken)
        // An event may be older than its connection's end.
        guard let connection = connections[slot] else { return }
        if event.isWritable {
            connection.flush()
            watch(connection)
        }
        if event.isReadable || event.isHungUp { read(connection, now: now, isKnown: isKnown, receive: receive) }
    }

    /// Closes what has had its time: connections without a session, frames that do not end.
    package func sweep(now: Instant, isKnown: (PeerAddress) -> Bool) {
        if !isAccepting { resumeAccepting() }
        for case let connection? in connections {
            if connection.frameDeadline <= now {
                close(connection, .slowFrame)
            } else if connection.isProven {
                if !isKnown(connection.peer) { demote(connection, now: now) }
            } else if connection.provenBy <= now {
                close(connection, connection.hasSpokenForSession ? .withoutSession : .unproven)
            }
        }
        deadline = count > 0 || !isAccepting ? now + Self.sweepInterval : .distantFuture
    }

    /// Peers whose connection has closed since the last call.
    package func takeGone() -> [PeerAddress] {
        guard !gone.isEmpty else { return [] }
        defer { gone.removeAll(keepingCapacity: true) }
        return gone
    }

    /// Sends the entry at `first`, whose peer is on a connection, and its successors to the same one. Returns the first entry
    /// that was not looked at.
    package func send(_ batch: TransmitBatch, from first: Int, errors: SendErrorCounters) -> Int {
        let peer = batch.entries[first].peer
        var end = first + 1
        while end < batch.count, end - first < StreamConnection.frameCount, batch.entries[end].peer == peer { end += 1 }
        let slot = Int(peer.connection) - 1
        guard slot < connections.count, let connection = connections[slot], connection.peer == peer else {
            errors.count(.streamClosed, times: end - first)
            return end
        }
        let sent = connection.send(batch, first..<end, buffers: buffers, lengths: lengths, errors: errors)
        counters.framesSent &+= UInt64(sent.frames)
        counters.bytesSent &+= UInt64(sent.bytes)
        if connection.hasBacklog != connection.waitsForRoom { watch(connection) }
        return end
    }

    // MARK: Connections come

    private func accept(_ index: Int, now: Instant) {
        for _ in 0..<Self.acceptCount {
            do throws(SystemError) {
                guard let taken = try listeners[index].accept() else { return }
                take(taken.descriptor, from: taken.peer, now: now)
            } catch {
                counters.count(.noDescriptor)
                return pauseAccepting(now: now)
            }
        }
    }

    private func take(_ descriptor: Int32, from address: PeerAddress, now: Instant) {
        if let refusal = admission.admit(address) {
            counters.count(StreamEnd(refusal))
            return Syscall.close(descriptor)
        }
        if freeSlots.isEmpty {
            freeSlots.append(connections.count)
            connections.append(nil)
        }
        let slot = freeSlots.removeLast()
        var peer = address
        peer.connection = UInt16(slot + 1)
        let connection = StreamConnection(descriptor: descriptor, peer: peer, provenBy: now + limits.proof)
        connections[slot] = connection
        counters.accepted &+= 1
        deadline = min(deadline, now + Self.sweepInterval)
        do throws(SystemError) {
            try poller.add(descriptor, token: token(of: connection), for: .reading)
        } catch {
            forget(connection, .noDescriptor)
        }
    }

    /// Without descriptors a connection that waits would wake the loop again and again.
    private func pauseAccepting(now: Instant) {
        guard isAccepting else { return }
        isAccepting = false
        for listener in listeners { poller.remove(listener.descriptor) }
        deadline = min(deadline, now + Self.sweepInterval)
    }

    private func resumeAccepting() {
        isAccepting = true
        for (index, listener) in listeners.enumerated() {
            let token = Self.firstListenerToken + UInt64(index)
            guard (try? poller.add(listener.descriptor, token: token, for: .reading)) == nil else { continue }
            for earlier in listeners[..<index] { poller.remove(earlier.descriptor) }
            isAccepting = false
            return
        }
    }

    // MARK: Connections speak

    private func read(
        _ connection: StreamConnection, now: Instant, isKnown: (PeerAddress) -> Bool,
        receive: (UnsafeMutablePointer<UInt8>, Int, PeerAddress) -> Void
    ) {
        let result = Syscall.retrying { lio_stream_receive(connection.descriptor, input, Self.readByteCount) }
        guard result > 0 else {
            if result == -Int64(EAGAIN) { return }
            if result < 0 { Syscall.trapOnBug(Int32(-result), "recv TCP") }
            return close(connection, result == 0 ? .byPeer : .broken)
        }
        counters.bytesReceived &+= UInt64(result)
        var isICE = true
        do throws(StreamFramer.Refusal) {
            let patience = connection.isProven ? limits.frame : limits.proof
            try connection.read(UnsafeBufferPointer(start: input, count: Int(result)), now: now, patience: patience) {
                frame, count in
                if !connection.hasSpokenForSession {
                    // RFC 6544 §5: a connection begins with checks.
                    let kind = DatagramKind.classify(
                        firstByte: frame[0], secondByte: count > 1 ? frame[1] : 0, count: count)
                    isICE = kind == .stun
                    guard isICE else { return false }
                }
                counters.framesReceived &+= 1
                receive(frame, count, connection.peer)
                if !connection.isProven, isKnown(connection.peer) { prove(connection) }
                return true
            }
        } catch {
            return close(connection, error == .emptyFrame ? .emptyFrame : .oversizeFrame)
        }
        if !isICE { close(connection, .notICE) }
    }

    private func prove(_ connection: StreamConnection) {
        connection.isProven = true
        connection.hasSpokenForSession = true
        admission.prove(connection.peer)
    }

    /// The session is gone, or has moved on: the connection is as good as any stranger's again.
    private func demote(_ connection: StreamConnection, now: Instant) {
        guard admission.demote(connection.peer) else { return close(connection, .withoutSession) }
        connection.isProven = false
        connection.provenBy = now + limits.proof
    }

    /// Asks the poller for what the connection waits for.
    private func watch(_ connection: StreamConnection) {
        guard connection.hasBacklog != connection.waitsForRoom else { return }
        connection.waitsForRoom = connection.hasBacklog
        poller.modify(
            connection.descriptor, token: token(of: connection), for: connection.waitsForRoom ? .both : .reading)
    }

    private func token(of connection: StreamConnection) -> UInt64 {
        Self.firstConnectionToken + UInt64(connection.peer.connection) - 1
    }

    // MARK: Connections go

    private func close(_ connection: StreamConnection, _ reason: StreamEnd) {
        poller.remove(connection.descriptor)
        forget(connection, reason)
    }

    private func forget(_ connection: StreamConnection, _ reason: StreamEnd) {
        let slot = Int(connection.peer.connection) - 1
        connections[slot] = nil
        freeSlots.append(slot)
        admission.leave(connection.peer, wasProven: connection.isProven)
        counters.count(reason)
        gone.append(connection.peer)
    }
}
