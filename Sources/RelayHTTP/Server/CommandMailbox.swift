import CLinuxIO
import Glibc

/// What other threads ask of the server's thread.
enum ServerCommand: Sendable {
    case respond(HTTPRequestID, HTTPResponse)
    case openStream(HTTPRequestID, status: Int, headers: [HTTPResponse.Field])
    case write(HTTPRequestID, [UInt8])
    case broadcast([HTTPRequestID], [UInt8])
    case close(HTTPRequestID)
    case useTLS(TLSContext)
    case resume
    case handOver
    case stop(graceful: Bool)
}

/// The one way into the server's thread: a batch is taken at once, and a batch costs one write to the
/// eventfd.
///
/// Bounded by the stream bytes it holds. Answers are bounded by the requests in flight. When it is full, no
/// stream byte is taken any more and the loop closes every event stream: their clients resume where they
/// were, and nothing is lost in the middle of a stream.
final class CommandMailbox: Sendable {
    struct Batch {
        var commands: [ServerCommand] = []
        var byteCount = 0
        var isFull = false
    }

    private struct State {
        var batch = Batch()
        /// Whether the loop is awake or will be: no signal is needed.
        var isSignalled = false
        /// The eventfd, -1 before `open`.
        var descriptor: Int32 = -1
    }

    private let limitByteCount: Int
    private let state = Lock(State())

    init(limitByteCount: Int) {
        self.limitByteCount = limitByteCount
    }

    deinit {
        let descriptor = state.withLock { $0.descriptor }
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    /// Makes the eventfd, which lives as long as the mailbox. Posts before it wait without a signal.
    func open() throws(HTTPServerError) -> Int32 {
        let opened = state.withLock { $0.descriptor }
        guard opened < 0 else { return opened }
        let descriptor = lio_eventfd()
        guard descriptor >= 0 else { throw .system(call: "eventfd", address: "mailbox", errno: -descriptor) }
        state.withLock { $0.descriptor = descriptor }
        return descriptor
    }

    func post(_ command: ServerCommand) {
        let byteCount =
            switch command {
            case .write(_, let bytes): bytes.count + 64
            case .broadcast(let ids, let bytes): bytes.count + 8 * ids.count + 64
            case .respond, .openStream, .close, .useTLS, .resume, .handOver, .stop: 0
            }
        let descriptor = state.withLock { state -> Int32 in
            if state.batch.byteCount + byteCount > limitByteCount, byteCount > 0 {
                state.batch.isFull = true
            } else if !state.batch.isFull || byteCount == 0 {
                state.batch.commands.append(command)
                state.batch.byteCount += byteCount
            }
            defer { state.isSignalled = true }
            return state.isSignalled ? -1 : state.descriptor
        }
        guard descriptor >= 0 else { return }
        _ = lio_eventfd_signal(descriptor)
    }

    /// Takes all commands. Posts after it signal again, unless the loop stays awake and will take once more.
    func take(staysAwake: Bool) -> Batch {
        state.withLock { state in
            let batch = state.batch
            state.batch = Batch()
            state.isSignalled = staysAwake
            return batch
        }
    }

    /// Empties the eventfd after it woke the loop.
    func clearSignal() {
        _ = lio_eventfd_take(state.withLock { $0.descriptor })
    }
}
