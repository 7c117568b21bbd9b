import CLinuxIO
import Glibc

/// New connections: taken, counted, and turned away in a way that never spins.
extension ServerLoop {
    /// Connections taken from one listener in one turn.
    private static let acceptCount = 64
    /// Connections beyond the limit that are told 503 instead of being cut.
    private static let refusedCount = 64

    func accept(_ index: Int) {
        for _ in 0..<Self.acceptCount {
            guard index < listeners.count, acceptResumeTime == .max, !isPaused else { return }
            var address = SocketAddress()
            let descriptor = address.fill { lio_tcp_accept(listeners[index].descriptor, $0, $1) }
            if descriptor >= 0 {
                take(descriptor, from: address, listener: index)
                continue
            }
            switch -descriptor {
            case EAGAIN: return
            case EMFILE, ENFILE: shed(index)
            case ENOBUFS, ENOMEM: pauseAccepting()
            // The connection in the queue had an error of its own (accept(2)); the next may be well.
            default: break
            }
        }
    }

    /// Without a descriptor left, a waiting connection would wake the loop again and again: it is taken with
    /// the spare descriptor and closed. When not even that goes, accepting pauses.
    private func shed(_ index: Int) {
        guard spareDescriptor >= 0 else { return pauseAccepting() }
        Glibc.close(spareDescriptor)
        var address = SocketAddress()
        let descriptor = address.fill { lio_tcp_accept(listeners[index].descriptor, $0, $1) }
        if descriptor >= 0 {
            Glibc.close(descriptor)
            counters.refusedConnections += 1
        }
        spareDescriptor = lio_spare_descriptor()
        if descriptor < 0 { pauseAccepting() }
    }

    private func pauseAccepting() {
        guard acceptResumeTime == .max, !isPaused else { return }
        acceptResumeTime = time(afterMs: configuration.deadlines.acceptPauseMs)
        for index in listeners.indices { watchListener(index, EPOLL_CTL_MOD, 0) }
    }

    func resumeAccepting() {
        acceptResumeTime = .max
        guard !isPaused else { return }
        if spareDescriptor < 0 { spareDescriptor = lio_spare_descriptor() }
        for index in listeners.indices { watchListener(index, EPOLL_CTL_MOD, EPOLLIN.rawValue) }
    }

    private func take(_ descriptor: Int32, from address: SocketAddress, listener: Int) {
        let excess = connections.count - streams.count - configuration.limits.connectionCount
        let isSecure = listeners[listener].isSecure
        guard excess < 0 || (!isSecure && excess < Self.refusedCount) else {
            Glibc.close(descriptor)
            counters.refusedConnections += 1
            return
        }
        var session: TLSSession?
        if isSecure {
            session = context?.makeSession(descriptor: descriptor)
            guard session != nil else {
                Glibc.close(descriptor)
                counters.refusedConnections += 1
                return
            }
        }
        let connection = connections.insert { key in
            Connection(
                descriptor: descriptor, key: key, peer: address.text, listener: listener, tls: session,
                limits: configuration.parser)
        }
        watch(connection)
        guard excess < 0 else {
            counters.refusedConnections += 1
            refuse(
                connection, .overloaded("The server has \(configuration.limits.connectionCount) connections.")
            )
            return
        }
        counters.connections += 1
        enter(.head, connection)
    }
}
