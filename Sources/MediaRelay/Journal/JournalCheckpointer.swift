import RTPCore

/// Moves pages from the journal's write-ahead log back into the database, on a thread and a connection of its own: the
/// flush takes tens of milliseconds, in which the journal thread goes on with commits. What is committed
/// meanwhile is left; the journal thread moves those few itself when it is told that this is done, so that its next
/// commit begins the log anew.
final class JournalCheckpointer {
    private enum Command: Sendable { case checkpoint, stop }

    private let mailbox: Mailbox<Command>
    private let thread: Thread

    /// - Parameter onDone: called on the thread, after each request.
    init(
        path: String, onDone: @escaping @Sendable () -> Void, onFailure: @escaping @Sendable (String) -> Void
    ) throws {
        let mailbox = try Mailbox<Command>(capacity: 4)
        self.mailbox = mailbox
        let poller = try Poller()
        try poller.add(mailbox.wakeUp.descriptor, token: 0, for: .reading)
        let setting = Setting(database: try SQLiteDatabase(path: path), poller: poller)
        thread = try Thread(named: "checkpoint", nice: 5) {
            var batch: [Command] = []
            while true {
                _ = setting.poller.wait(until: .distantFuture, now: MonotonicClock.now())
                _ = mailbox.wakeUp.clear()
                mailbox.take(into: &batch)
                for command in batch {
                    guard command == .checkpoint else { return }
                    do throws(SQLiteError) {
                        try setting.database.checkpoint()
                    } catch {
                        onFailure("\(error)")
                    }
                    onDone()
                }
            }
        }
    }

    private struct Setting: @unchecked Sendable {
        // @unchecked: handed over as a whole; the starting thread keeps nothing of it.
        let database: SQLiteDatabase
        let poller: Poller
    }

    func request() { mailbox.post(.checkpoint) }

    func stop() {
        mailbox.post(.stop)
        thread.join()
    }
}
