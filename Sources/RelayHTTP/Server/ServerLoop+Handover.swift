import CLinuxIO
import Glibc

/// The end of a server whose clients do not notice: nobody is turned away, nothing that was asked stays unanswered.
extension ServerLoop {
    /// Connections that came by a predecessor; nothing is read or accepted before `resume`.
    func takeOver(_ handover: HTTPHandover) {
        isPaused = true
        for inherited in handover.connections {
            let former = handover.listeners[inherited.listener]
            let index = configuration.listeners.firstIndex {
                $0.address == former.address && $0.port == former.port && !$0.isSecure
            }
            guard let index else {
                Glibc.close(inherited.descriptor)
                continue
            }
            var address = SocketAddress()
            _ = address.fill { storage, byteCount in
                storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    getpeername(inherited.descriptor, $0, byteCount)
                }
            }
            let connection = connections.insert { key in
                Connection(
                    descriptor: inherited.descriptor, key: key, peer: address.text, listener: index, tls: nil,
                    limits: configuration.parser)
            }
            connection.isHeld = true
            watch(connection)
            counters.connections += 1
        }
    }

    func resume() {
        guard isPaused, !isStopping, handoverDeadline == .max else { return }
        isPaused = false
        for index in listeners.indices { watchListener(index, EPOLL_CTL_MOD, EPOLLIN.rawValue) }
        for connection in connections.all where connection.isHeld {
            connection.isHeld = false
            enter(.idle, connection)
            updateInterest(connection)
        }
    }

    /// Begins to hand over: no connection is accepted any more, requests that are under way go on to their answers.
    func beginHandover() {
        guard handoverDeadline == .max, !isStopping else { return }
        isPaused = true
        acceptResumeTime = .max
        for index in listeners.indices { watchListener(index, EPOLL_CTL_MOD, 0) }
        handoverDeadline = time(afterMs: configuration.deadlines.stopMs)
        lingerDeadline = time(afterMs: Self.handoverLingerMs)
        for connection in connections.all {
            switch connection.mode {
            case .events:
                let id = connection.requestID
                endStream(connection)
                sink(.gone(id))
            case .reading where connection.output.isEmpty && !connection.parser.isMidRequest: hold(connection)
            case .reading, .waiting, .draining, .closed: break
            }
        }
    }

    /// For a client's close behind what it was sent last.
    static let handoverLingerMs = 200

    /// Between two requests: what comes next is the successor's.
    func hold(_ connection: Connection) {
        guard connection.tls == nil, connection.input.isEmpty else {
            if connection.tls != nil, connection.input.isEmpty {
                connection.mode = .draining
                finishSending(connection)
            }
            return
        }
        connection.isHeld = true
        enter(.none, connection)
        updateInterest(connection)
    }

    /// When the loop is to look again at the latest.
    var handoverWake: UInt64 {
        handoverDeadline == .max ? .max : now < lingerDeadline ? lingerDeadline : handoverDeadline
    }

    /// True when everything that can be handed over is ready to be, or the deadline has come.
    var isHandedOver: Bool {
        guard handoverDeadline != .max else { return false }
        if now >= handoverDeadline { return true }
        return connections.all.allSatisfy { connection in
            connection.isHeld || (connection.mode == .draining && connection.output.isEmpty && now >= lingerDeadline)
        }
    }

    /// The last thing that the loop does: everything else is closed.
    func finishHandover() {
        var handover = HTTPHandover()
        for (listener, socket) in zip(configuration.listeners, listeners) {
            let descriptor = fcntl(socket.descriptor, F_DUPFD_CLOEXEC, 3)
            guard descriptor >= 0 else { continue }
            handover.listeners.append(
                .init(address: listener.address, port: listener.port, descriptor: descriptor))
        }
        let isWhole = handover.listeners.count == listeners.count
        for connection in connections.all {
            guard connection.isHeld, isWhole else {
                drop(connection)
                continue
            }
            handover.connections.append(.init(descriptor: connection.descriptor, listener: connection.listener))
            connections.remove(connection.key)
        }
        listeners.removeAll()
        shared.handover.withLock { $0 = handover }
    }
}
