import Glibc
import RelayCore

/// The worker's few lines for the operator, on standard error, which control chose for it, in the form of control's own log. No
/// secret and no full address ever comes here. Any thread.
struct WorkerLog: Sendable {
    private let index: Int
    private let log: Log

    init(index: Int, format: Log.Format) {
        self.index = index
        log = Log(level: .info, format: format)
    }

    func line(_ text: String, _ fields: JSONValue.Field...) {
        let own: [JSONValue.Field] = [
            .init("worker", .integer(Int64(index))), .init("pid", .integer(Int64(getpid()))),
        ]
        log.write(.info, text, own + fields)
    }
}
