import CLinuxIO
import Glibc

/// What clients send: readiness, bytes, requests.
extension ServerLoop {
    /// One wake of a connection: at most one read.
    func receive(_ events: UInt32, for connection: Connection) {
        let isReadable = events & (EPOLLIN.rawValue | EPOLLHUP.rawValue) != 0
        if events & EPOLLERR.rawValue != 0 {
            if connection.isHandshaking { counters.tlsFailures += 1 }
            return drop(connection)
        }
        if connection.isHandshaking { return handshake(connection) }
        switch connection.mode {
        case .events where events & (EPOLLRDHUP.rawValue | EPOLLHUP.rawValue) != 0:
            return drop(connection)
        case .waiting where events & EPOLLHUP.rawValue != 0:
            return drop(connection)
        case .waiting where events & EPOLLRDHUP.rawValue != 0:
            // Half a close: the client may still read its answer.
            connection.peerFinished = true
            updateInterest(connection)
        default:
            break
        }
        let isWritable = events & EPOLLOUT.rawValue != 0 || (isReadable && connection.writeWantsRead)
        if isWritable, !connection.output.isEmpty { flush(connection) }
        if isReadable || (isWritable && connection.readWantsWrite) { read(connection) }
    }

    private func handshake(_ connection: Connection) {
        guard let tls = connection.tls else { return }
        switch tls.handshake() {
        case .done:
            connection.readWantsWrite = false
            if tls.hasPending { resumed.append(connection.key) }
        case .wantsRead:
            connection.readWantsWrite = false
        case .wantsWrite:
            connection.readWantsWrite = true
        case .ended, .failed:
            counters.tlsFailures += 1
            return drop(connection)
        }
        updateInterest(connection)
    }

    func read(_ connection: Connection) {
        switch connection.mode {
        case .reading:
            guard connection.wantsInput, !connection.isHandshaking else { return }
            switch connection.receive(into: readBuffer) {
            case .bytes(let count):
                let bytes = UnsafeBufferPointer(rebasing: readBuffer.bindMemory(to: UInt8.self)[..<count])
                ingest(bytes.span, connection)
                noteInsideTLS(connection)
            case .nothing:
                updateInterest(connection)
            case .ended, .failed:
                drop(connection)
            }
        case .draining:
            guard connection.output.isEmpty else { return }
            switch connection.receiveRaw(into: readBuffer) {
            case .bytes, .nothing: break
            case .ended, .failed: drop(connection)
            }
        case .waiting, .events, .closed:
            break
        }
    }

    /// A record may hold more than one read takes; epoll does not see the rest.
    func noteInsideTLS(_ connection: Connection) {
        guard let tls = connection.tls, connection.wantsInput, tls.hasPending else { return }
        resumed.append(connection.key)
    }

    /// Gives bytes to the parser until a request is whole; what is behind it waits for the answer.
    func ingest(_ bytes: Span<UInt8>, _ connection: Connection) {
        precondition(connection.input.isEmpty, "older bytes come first")
        var offset = 0
        switch connection.parser.receive(bytes, from: &offset) {
        case .needsMore:
            goOnReading(connection)
        case .complete(let request):
            if offset < bytes.count {
                connection.input.append(contentsOf: bytes, from: offset, count: bytes.count - offset)
            }
            connection.isHead = request.method == "HEAD"
            guard admit(connection) else { return }
            deliver(request, connection)
        case .refused(let refusal):
            counters.refusedRequests += 1
            refuse(connection, refusal)
        }
    }

    private func goOnReading(_ connection: Connection) {
        if connection.parser.isReadingBody {
            guard admit(connection) else { return }
            if connection.phase != .body { enter(.body, connection) }
            if connection.parser.takeContinue() {
                enqueue(ResponseWriter.goOn, connection)
                return flush(connection)
            }
        } else if connection.phase == .idle, connection.parser.isMidRequest {
            enter(.head, connection)
        }
        updateInterest(connection)
    }

    /// Counts a request whose head is whole among those in flight, or refuses it.
    private func admit(_ connection: Connection) -> Bool {
        guard !connection.isAdmitted else { return true }
        let limits = configuration.limits
        guard inFlight.count + bodyReaderCount < limits.requestCount else {
            refuse(connection, .overloaded("\(limits.requestCount) requests wait for their answers."))
            return false
        }
        guard counters.pendingOutputByteCount <= limits.pendingOutputByteCount else {
            refuse(connection, .overloaded("\(limits.pendingOutputByteCount) bytes wait for slow readers."))
            return false
        }
        connection.isAdmitted = true
        bodyReaderCount += 1
        return true
    }

    private func deliver(_ request: ParsedRequest, _ connection: Connection) {
        connection.isAdmitted = false
        bodyReaderCount -= 1
        let id = HTTPRequestID(rawValue: nextRequestID)
        nextRequestID += 1
        connection.requestID = id
        connection.isLegacy = request.isLegacy
        connection.keepsAlive = request.keepsAlive
        connection.mode = .waiting
        enter(.none, connection)
        inFlight[id] = InFlight(connection: connection.key)
        counters.requests += 1
        updateInterest(connection)
        sink(
            .request(
                HTTPRequest(
                    id: id, method: request.method, target: request.target, headers: request.headers,
                    body: request.body, peer: connection.peer, listener: connection.listener)))
    }
}
