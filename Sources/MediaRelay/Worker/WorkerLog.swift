import Glibc

/// The worker's few lines for the operator, on standard error, which control chose for it. No secret and no
/// full address ever comes here. Any thread.
struct WorkerLog: Sendable {
    let index: Int

    func line(_ text: String) {
        let bytes = Array("worker \(index) pid \(getpid()): \(text)\n".utf8)
        // A log that cannot be written (control's terminal is gone) must not end calls.
        _ = write(2, bytes, bytes.count)
    }
}
