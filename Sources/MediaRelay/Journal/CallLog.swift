import RTPCore
import RelayCore

/// Where call records are written to: the HTTP server, by the id of the request.
package protocol CallSink: AnyObject, Sendable {
    func answer(_ request: UInt64, _ json: [UInt8])
    func refuse(_ request: UInt64, _ problem: Problem)
}

/// The thread that reads call records for everybody who asks, one question after another: a long look through the log
/// keeps other looks waiting and nothing else. Questions come from any thread; too many at once are refused.
package final class CallLog: @unchecked Sendable {
    // @unchecked: only the mailbox is shared; the reader is made before the thread starts and used only on it.
    private enum Command: Sendable {
        case page(UInt64, CallQuery)
        case record(UInt64, room: RoomID, uid: String?)
        case stop
    }
    private static let capacity = 1_024

    private let mailbox: Mailbox<Command>
    private let reader: CallReader
    private let sink: any CallSink
    private let onFailure: @Sendable (String) -> Void
    private var thread: Thread?

    package init(
        reader: CallReader, sink: any CallSink, onFailure: @escaping @Sendable (String) -> Void
    ) throws(SystemError) {
        self.reader = reader
        self.sink = sink
        self.onFailure = onFailure
        mailbox = try Mailbox(capacity: Self.capacity)
    }

    package func start() throws(SystemError) {
        thread = try Thread(named: "calls") { [self] in run() }
    }

    package func stop() {
        while !mailbox.post(.stop) {}
        thread?.join()
        thread = nil
    }

    /// A page, answered to `request`. False: too many wait.
    package func page(_ request: UInt64, _ query: CallQuery) -> Bool { mailbox.post(.page(request, query)) }

    /// One room's record, with the view of `uid`. False: too many wait.
    package func record(_ request: UInt64, of room: RoomID, uid: String?) -> Bool {
        mailbox.post(.record(request, room: room, uid: uid))
    }

    private func run() {
        guard let poller = try? Poller(), (try? poller.add(mailbox.wakeUp.descriptor, token: 0, for: .reading)) != nil
        else { preconditionFailure("the call log's thread has no poller") }
        var batch: [Command] = []
        while true {
            _ = poller.wait(until: .distantFuture, now: MonotonicClock.now())
            _ = mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            for command in batch {
                switch command {
                case .page(let request, let query):
                    serve(request) { () throws(SQLiteError) in try reader.page(query) }
                case .record(let request, let room, let uid):
                    serve(request) { () throws(SQLiteError) in try reader.record(of: room.text, uid: uid) }
                case .stop: return
                }
            }
        }
    }

    private func serve(_ request: UInt64, _ read: () throws(SQLiteError) -> [UInt8]?) {
        do throws(SQLiteError) {
            if let json = try read() { return sink.answer(request, json) }
            sink.refuse(
                request,
                Problem(status: 404, code: "call-not-found", detail: "There is no record of such a call."))
        } catch {
            onFailure("call log: \(error)")
            sink.refuse(
                request,
                Problem(
                    status: 503, code: "overloaded", detail: "The call log cannot be read now.",
                    retryAfterSeconds: 5))
        }
    }
}
