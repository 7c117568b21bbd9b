import Glibc

/// Deadlines, and the one way in which a connection ends.
extension ServerLoop {
    /// Begins a phase and sets its deadline.
    func enter(_ phase: Connection.Phase, _ connection: Connection) {
        let deadlines = configuration.deadlines
        connection.phase = phase
        connection.progressByteCount = 0
        connection.deadline =
            switch phase {
            case .none: .max
            case .idle: time(afterMs: deadlines.idleMs)
            case .head: time(afterMs: deadlines.headMs)
            case .body: time(afterMs: deadlines.bodyMs)
            case .writeStall: time(afterMs: deadlines.writeStallMs)
            case .linger: time(afterMs: deadlines.lingerMs)
            }
        schedule(connection)
    }

    /// Makes sure that the queue wakes the loop no later than at the connection's deadline.
    private func schedule(_ connection: Connection) {
        guard connection.deadline < connection.scheduled else { return }
        connection.scheduled = connection.deadline
        deadlines.insert(DeadlineQueue.Entry(time: connection.deadline, key: connection.key))
        // Entries of closed connections lie there until their time; a storm of connections must not make them
        // many.
        guard deadlines.count > 8 * connections.capacity + 1024 else { return }
        deadlines.removeAll()
        for connection in connections.all where connection.deadline != .max {
            connection.scheduled = connection.deadline
            deadlines.insert(DeadlineQueue.Entry(time: connection.deadline, key: connection.key))
        }
    }

    func passDeadlines() {
        while let entry = deadlines.take(until: now) {
            guard let connection = connections[entry.key], connection.scheduled == entry.time else {
                continue
            }
            connection.scheduled = .max
            if connection.deadline <= now {
                expire(connection)
            } else if connection.deadline != .max {
                schedule(connection)
            }
        }
        if acceptResumeTime <= now { resumeAccepting() }
        if stopDeadline <= now {
            stopDeadline = .max
            for connection in connections.all { drop(connection) }
        }
    }

    private func expire(_ connection: Connection) {
        switch connection.phase {
        case .none:
            break
        case .idle, .linger:
            drop(connection)
        case .head where connection.isHandshaking || !connection.parser.isMidRequest, .writeStall:
            counters.timeouts += 1
            drop(connection)
        case .head, .body:
            counters.timeouts += 1
            refuse(connection, .timeout)
        }
    }

    /// Gives back what a request that was not handed over counts.
    func release(_ connection: Connection) {
        guard connection.isAdmitted else { return }
        connection.isAdmitted = false
        bodyReaderCount -= 1
    }

    /// Closes a connection and tells the application what it loses by that. Nothing of it is left but, for a
    /// request without an answer, its place among those in flight: the work for it still goes on.
    func drop(_ connection: Connection) {
        let mode = connection.mode
        guard mode != .closed else { return }
        connection.mode = .closed
        release(connection)
        counters.pendingOutputByteCount -= connection.output.byteCount
        // Freed before the descriptor is closed: OpenSSL may still look at it.
        connection.tls = nil
        Glibc.close(connection.descriptor)
        connections.remove(connection.key)
        switch mode {
        case .waiting:
            inFlight[connection.requestID] = InFlight(connection: nil)
            sink(.gone(connection.requestID))
        case .events:
            streams[connection.requestID] = nil
            sink(.gone(connection.requestID))
        case .reading, .draining, .closed:
            break
        }
    }
}
