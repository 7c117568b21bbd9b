import Glibc

/// What the application asks for.
extension ServerLoop {
    func apply(_ command: ServerCommand) {
        switch command {
        case .respond(let id, let response): respond(id, response)
        case .openStream(let id, let status, let headers): openStream(id, status: status, headers: headers)
        case .write(let id, let bytes): write(id, bytes)
        case .broadcast(let ids, let bytes): broadcast(ids, bytes)
        case .close(let id): close(id)
        case .useTLS(let context): self.context = context
        case .resume: resume()
        case .handOver: beginHandover()
        case .stop(let graceful): stop(graceful: graceful)
        }
    }

    /// Takes a request out of those in flight. Nil, and counted, when its client is gone or it was answered
    /// before.
    private func takeInFlight(_ id: HTTPRequestID) -> Connection? {
        guard let key = inFlight.removeValue(forKey: id)?.connection, let connection = connections[key] else {
            counters.skipped += 1
            return nil
        }
        precondition(
            connection.mode == .waiting && connection.requestID == id, "a connection has one request")
        return connection
    }

    private func respond(_ id: HTTPRequestID, _ response: HTTPResponse) {
        guard let connection = takeInFlight(id) else { return }
        let isLast = isStopping || (handoverDeadline != .max && connection.tls != nil)
        send(response, connection, closes: !connection.keepsAlive || isLast)
    }

    private func openStream(_ id: HTTPRequestID, status: Int, headers: [HTTPResponse.Field]) {
        guard let connection = takeInFlight(id) else { return }
        guard streams.count < configuration.limits.eventStreamCount, !isStopping else {
            let limit = configuration.limits.eventStreamCount
            refuse(connection, .overloaded("The server has \(limit) event streams or is stopping."))
            return sink(.gone(id))
        }
        let framing = connection.isLegacy ? ResponseWriter.Framing.untilClose : .chunked
        do throws(ResponseFault) {
            // The connection ends with the stream, so that nothing needs to be kept for a request behind it.
            let head = try ResponseWriter.head(
                status: status, headers: headers, framing: framing, date: date(), connection: "close")
            connection.input = []
            if connection.isHead {
                connection.mode = .draining
            } else {
                connection.mode = .events
                streams[id] = connection.key
            }
            enqueue(head, connection)
            flush(connection)
            if connection.isHead { return sink(.gone(id)) }
            // Its client resumes, at the successor.
            guard handoverDeadline == .max || connection.mode != .events else {
                endStream(connection)
                return sink(.gone(id))
            }
        } catch {
            sendFault("The answer had a header that cannot be sent.", connection)
            sink(.gone(id))
        }
    }

    private func write(_ id: HTTPRequestID, _ bytes: [UInt8]) {
        guard let key = streams[id], let connection = connections[key] else {
            counters.skipped += 1
            // Told again: whoever writes may have learnt of the stream only after its end was told.
            return sink(.gone(id))
        }
        guard !bytes.isEmpty else { return }
        connection.wantsDrained = true
        append(connection.isLegacy ? bytes : ResponseWriter.chunk(bytes), byteCount: bytes.count, connection)
    }

    private func broadcast(_ ids: [HTTPRequestID], _ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        let chunk = ResponseWriter.chunk(bytes)
        for id in ids {
            guard let key = streams[id], let connection = connections[key] else {
                counters.skipped += 1
                continue
            }
            append(connection.isLegacy ? bytes : chunk, byteCount: bytes.count, connection)
        }
    }

    /// Appends to a stream's queue, or closes the stream when it has no room: its client does not read.
    private func append(_ bytes: [UInt8], byteCount: Int, _ connection: Connection) {
        let isEmpty = connection.output.isEmpty
        let room = configuration.limits.streamQueueByteCount - (isEmpty ? 0 : connection.output.byteCount)
        guard byteCount <= room else {
            counters.streamOverflows += 1
            return drop(connection)
        }
        enqueue(bytes, connection)
        // A queue that was not empty waits for the kernel already.
        if isEmpty { flush(connection) }
    }

    private func close(_ id: HTTPRequestID) {
        if let key = streams[id], let connection = connections[key] { return endStream(connection) }
        guard let connection = takeInFlight(id) else { return }
        // No answer will come: the mode says that nobody needs to be told.
        connection.mode = .draining
        drop(connection)
    }

    /// Ends a stream in good order behind what waits for it.
    func endStream(_ connection: Connection) {
        streams[connection.requestID] = nil
        connection.mode = .draining
        if !connection.isLegacy { enqueue(ResponseWriter.lastChunk, connection) }
        flush(connection)
    }

    /// Stream bytes were lost on their way to this thread: no stream may go on as if nothing were missing.
    func closeAllStreams() {
        for key in Array(streams.values) {
            guard let connection = connections[key] else { continue }
            counters.streamOverflows += 1
            drop(connection)
        }
    }

    private func stop(graceful: Bool) {
        isStopping = true
        // First of all: a successor can only bind when these are closed.
        listeners.removeAll()
        acceptResumeTime = .max
        shared.listenersClosed.open()
        if stopDeadline == .max { stopDeadline = time(afterMs: configuration.deadlines.stopMs) }
        for connection in connections.all {
            switch connection.mode {
            case _ where !graceful:
                drop(connection)
            case .events:
                let id = connection.requestID
                endStream(connection)
                sink(.gone(id))
            case .reading where connection.output.isEmpty && !connection.parser.isMidRequest:
                drop(connection)
            case .reading, .waiting, .draining, .closed:
                break
            }
        }
    }
}
