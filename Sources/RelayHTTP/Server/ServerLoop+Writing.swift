import Glibc

/// What clients are sent: everything goes through the bounded queue of its connection.
extension ServerLoop {
    /// A reader must take so much within a write-stall deadline to get another.
    private static let progressByteCount = 1024

    func enqueue(_ bytes: [UInt8], _ connection: Connection) {
        let before = connection.output.byteCount
        connection.output.append(bytes)
        counters.pendingOutputByteCount += connection.output.byteCount - before
    }

    /// Sends what the kernel takes.
    func flush(_ connection: Connection) {
        let before = connection.output.byteCount
        var isBroken = false
        while !connection.output.isEmpty {
            guard let count = connection.send() else {
                isBroken = true
                break
            }
            guard count > 0 else { break }
            connection.output.removeFirst(count)
            connection.progressByteCount += count
        }
        counters.pendingOutputByteCount -= before - connection.output.byteCount
        if isBroken { return drop(connection) }
        if connection.output.isEmpty {
            noteEmpty(connection)
        } else {
            watchForStall(connection)
        }
        updateInterest(connection)
    }

    private func watchForStall(_ connection: Connection) {
        // While a body is read, its own deadline counts.
        if connection.mode == .reading, connection.parser.isMidRequest { return }
        guard connection.phase != .writeStall || connection.progressByteCount >= Self.progressByteCount else {
            return
        }
        enter(.writeStall, connection)
    }

    /// All that waited has left: what next?
    private func noteEmpty(_ connection: Connection) {
        switch connection.mode {
        case .reading:
            if connection.parser.isMidRequest { return }
            if isStopping {
                connection.mode = .draining
                return finishSending(connection)
            }
            enter(.idle, connection)
            resumeReading(connection)
            if handoverDeadline != .max, connection.mode == .reading, !connection.parser.isMidRequest {
                hold(connection)
            }
        case .waiting:
            enter(.none, connection)
        case .events:
            enter(.none, connection)
            guard connection.wantsDrained else { return }
            connection.wantsDrained = false
            sink(.drained(connection.requestID))
        case .draining:
            finishSending(connection)
        case .closed:
            break
        }
    }

    /// The answer has left: the next request may have come with the last one already.
    private func resumeReading(_ connection: Connection) {
        guard !connection.input.isEmpty else { return noteInsideTLS(connection) }
        let input = connection.input
        connection.input = []
        ingest(input.span, connection)
        noteInsideTLS(connection)
    }

    /// Says that no more comes, and reads on for a while: a close with unread bytes would be a reset, which
    /// destroys the answer on its way (RFC 9112 section 9.6).
    func finishSending(_ connection: Connection) {
        connection.tls?.shutdown()
        Glibc.shutdown(connection.descriptor, Int32(SHUT_WR))
        enter(.linger, connection)
    }

    /// Sends the server's own refusal and reads nothing more.
    func refuse(_ connection: Connection, _ refusal: RequestRefusal) {
        if refusal.status == 503 { counters.overloads += 1 }
        release(connection)
        send(HTTPResponse(refusal), connection, closes: true)
    }

    /// Sends a whole answer. A faulty one becomes 500: its data may come from a peer, so it is not worth a
    /// trap.
    func send(_ response: HTTPResponse, _ connection: Connection, closes: Bool) {
        let hasBody = response.status != 204 && response.status != 304
        let connectionValue = closes ? "close" : connection.isLegacy ? "keep-alive" : nil
        guard response.body.count <= configuration.limits.responseByteCount else {
            return sendFault(
                "The answer exceeds \(configuration.limits.responseByteCount) bytes.", connection)
        }
        do throws(ResponseFault) {
            var bytes = try ResponseWriter.head(
                status: response.status, headers: response.headers,
                framing: hasBody ? .length(response.body.count) : .none, date: date(),
                connection: connectionValue)
            if hasBody, !connection.isHead { bytes.append(contentsOf: response.body) }
            connection.isHead = false
            connection.mode = closes ? .draining : .reading
            if closes { connection.input = [] }
            enqueue(bytes, connection)
            flush(connection)
        } catch {
            sendFault("The answer had a header that cannot be sent.", connection)
        }
    }

    func sendFault(_ detail: String, _ connection: Connection) {
        counters.faultyResponses += 1
        let refusal = RequestRefusal(status: 500, code: "internal", detail: detail)
        send(HTTPResponse(refusal), connection, closes: true)
    }
}
