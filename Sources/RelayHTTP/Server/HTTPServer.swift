import CLinuxIO
import Glibc

/// An HTTP/1.1 server for one application: requests come to a sink as events, answers and event streams go
/// out by id.
///
/// One thread of its own (epoll), made by `start`. All verbs may be called from any thread, the sink
/// included; they only put a command into the mailbox. A server that is let go stops at once.
///
/// It refuses by itself, with a problem document and a close, what is no request of RFC 9112 or exceeds a
/// limit. It knows no route, no HTTP/2 and no WebSocket.
public final class HTTPServer: Sendable {
    private let configuration: HTTPConfiguration
    private let sink: @Sendable (ServerEvent) -> Void
    private let shared: ServerShared

    /// - Parameter sink: called on the server's thread only, one event at a time; it must not block.
    public init(configuration: HTTPConfiguration, sink: @escaping @Sendable (ServerEvent) -> Void) {
        precondition(configuration.listeners.count <= ServerLoop.maximumListenerCount, "too many listeners")
        self.configuration = configuration
        self.sink = sink
        shared = ServerShared(mailboxByteCount: configuration.limits.mailboxByteCount)
    }

    deinit { shared.mailbox.post(.stop(graceful: false)) }

    /// Binds all listeners and starts the thread.
    ///
    /// Returns the ports in the order of `configuration.listeners`. When it throws, nothing is bound or
    /// running.
    /// - Precondition: called once.
    public func start() throws(HTTPServerError) -> [UInt16] {
        let isFirst = shared.state.withLock { state in
            defer { state.isStarted = true }
            return !state.isStarted
        }
        precondition(isFirst, "a server starts once")
        do throws(HTTPServerError) {
            return try launch()
        } catch {
            shared.state.withLock { $0.isStarted = false }
            throw error
        }
    }

    private func launch() throws(HTTPServerError) -> [UInt16] {
        let context = try makeContext()
        var descriptors: [Int32] = []
        var ports: [UInt16] = []
        let epoll = lio_epoll_create()
        guard epoll >= 0 else { throw .system(call: "epoll_create", address: "server", errno: -epoll) }
        do throws(HTTPServerError) {
            var listening: [Int32] = []
            for listener in configuration.listeners {
                let former = configuration.inherited?.listeners.first {
                    $0.address == listener.address && $0.port == listener.port
                }
                if let former {
                    listening.append(former.descriptor)
                    ports.append(ListeningSocket.port(of: former.descriptor) ?? listener.port)
                    continue
                }
                let opened = try ListeningSocket.open(
                    listener, sendBufferByteCount: configuration.limits.sendBufferByteCount)
                descriptors.append(opened.descriptor)
                listening.append(opened.descriptor)
                ports.append(opened.port)
            }
            let launch = ServerLoop.Launch(
                configuration: configuration, listeners: listening, context: context, sink: sink,
                shared: shared,
                signal: try shared.mailbox.open(), epoll: epoll)
            try ServerThread.start { ServerLoop(launch).run() }
        } catch {
            // What was inherited stays open: whoever gave it may go on with it.
            for descriptor in descriptors + [epoll] { Glibc.close(descriptor) }
            throw error
        }
        for former in configuration.inherited?.listeners ?? [] {
            let isUsed = configuration.listeners.contains { $0.address == former.address && $0.port == former.port }
            if !isUsed { Glibc.close(former.descriptor) }
        }
        return ports
    }

    /// Begins to serve, where something was inherited: until then clients wait in the listening sockets' queues.
    public func resume() { shared.mailbox.post(.resume) }

    /// Stops serving and leaves its sockets to a successor. Requests that are under way get their answers first, for at most
    /// `Deadlines.stopMs`; event streams end in good order, and so do TLS connections. New clients wait in the listening sockets'
    /// queues, requests on kept connections in their sockets. The thread has ended when it returns.
    /// - Precondition: started; not called in the sink.
    public func handOver() -> HTTPHandover {
        shared.mailbox.post(.handOver)
        shared.finished.wait()
        return shared.handover.withLock { $0 }
    }

    /// Answers a request. Skipped when the client is gone or the id was answered already.
    public func respond(_ id: HTTPRequestID, _ response: HTTPResponse) {
        shared.mailbox.post(.respond(id, response))
    }

    /// Answers a request by a stream that stays open: server-sent events. The id names the stream from now
    /// on.
    ///
    /// HTTP/1.1 clients get it chunked, so that they can tell an orderly end from a cut; HTTP/1.0 clients
    /// until close. Beyond `Limits.eventStreamCount` the client gets 503 and the sink `gone`.
    /// - Precondition: `status` is in 200…599.
    public func openStream(_ id: HTTPRequestID, status: Int = 200, headers: [HTTPResponse.Field]) {
        precondition((200...599).contains(status), "status \(status) is not in 200…599")
        shared.mailbox.post(.openStream(id, status: status, headers: headers))
    }

    /// Appends to a stream; `drained` follows when all of it has left.
    ///
    /// An empty queue takes up to `Limits.streamQueueByteCount` bytes. A stream that cannot take the bytes is
    /// closed (`gone`): its client resumes from the last event it saw.
    public func write(_ id: HTTPRequestID, _ bytes: [UInt8]) {
        shared.mailbox.post(.write(id, bytes))
    }

    /// Appends the same bytes to many streams, as `write` does but without `drained`. Ids that are gone are
    /// skipped.
    public func broadcast(_ ids: [HTTPRequestID], _ bytes: [UInt8]) {
        shared.mailbox.post(.broadcast(ids, bytes))
    }

    /// Ends a stream in good order after what waits for it, or drops a request without an answer. No `gone`
    /// follows.
    public func close(_ id: HTTPRequestID) {
        shared.mailbox.post(.close(id))
    }

    /// Reads the certificate and key files again. New connections use them, open ones go on as they are.
    ///
    /// When it throws, the old certificate stays in use.
    public func reloadTLS() throws(HTTPServerError) {
        guard let context = try makeContext() else { return }
        shared.mailbox.post(.useTLS(context))
    }

    /// Stops. When it returns, no listening socket is open, so that a successor can bind (inside the sink:
    /// soon after).
    ///
    /// Graceful: idle connections and event streams end now, running requests get `Deadlines.stopMs` for
    /// their answers. Otherwise all connections are closed. `stopped` follows in both cases.
    public func stop(graceful: Bool) {
        shared.mailbox.post(.stop(graceful: graceful))
        let waits = shared.state.withLock { state in
            state.isStarted && !(state.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false)
        }
        if waits { shared.listenersClosed.wait() }
    }

    /// Waits until the thread has told `stopped`. Not to be called in the sink.
    public func waitUntilStopped() {
        shared.finished.wait()
    }

    /// What was done so far and is held now, as of the last turn of the loop.
    public var counters: HTTPCounters { shared.counters.withLock { $0 } }

    /// Whether a server could use the certificate and key; throws what `start` would.
    public static func check(_ files: HTTPConfiguration.TLSFiles) throws(HTTPServerError) { _ = try TLSContext(files) }

    /// Whether a server could listen there; throws what `start` would.
    public static func check(_ listener: HTTPConfiguration.Listener) throws(HTTPServerError) {
        let opened = try ListeningSocket.open(
            listener, sendBufferByteCount: HTTPConfiguration.Limits().sendBufferByteCount)
        Glibc.close(opened.descriptor)
    }

    private func makeContext() throws(HTTPServerError) -> TLSContext? {
        guard configuration.listeners.contains(where: \.isSecure) else { return nil }
        guard let files = configuration.tls else { throw .missingCertificate }
        return try TLSContext(files)
    }
}

/// What the server's thread and all others have in common.
final class ServerShared: Sendable {
    struct State {
        var isStarted = false
        var thread: pthread_t?
    }

    let mailbox: CommandMailbox
    let state = Lock(State())
    let counters = Lock(HTTPCounters())
    let handover = Lock(HTTPHandover())
    let listenersClosed = Latch()
    let finished = Latch()

    init(mailboxByteCount: Int) {
        mailbox = CommandMailbox(limitByteCount: mailboxByteCount)
    }
}
