import CLinuxIO
import Glibc

/// A running thread with a name, which must be joined: whoever starts a thread also sees it end. Blocks the
/// signals that the starting thread blocks.
package final class Thread {
    private var handle = pthread_t()
    private var isJoined = false

    /// Starts `body`. `name`: at most 15 bytes are shown. `nice`: 0 … 19, how much it yields to the process's other
    /// threads where cores are short. Throws EAGAIN when the system has no room for a thread.
    package init(named name: String, nice: Int32 = 0, _ body: sending @escaping () -> Void) throws(SystemError) {
        precondition((0...19).contains(nice), "a thread may be nice, not the reverse")
        let start = Unmanaged.passRetained(Start(name: name, nice: nice, body: body))
        let result = pthread_create(
            &handle, nil,
            { argument in
                guard let argument else { preconditionFailure("a thread without its start") }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                lio_set_thread_name(start.name)
                // Always allowed; where it is not, the thread runs like the others.
                if start.nice > 0 { lio_set_thread_nice(start.nice) }
                start.body()
                return nil
            }, start.toOpaque())
        guard result == 0 else {
            start.release()
            isJoined = true
            throw SystemError("start thread \(name)", code: result)
        }
    }

    deinit { precondition(isJoined, "a thread was dropped without being joined") }

    /// Waits until the thread has ended. Once.
    package func join() {
        precondition(!isJoined, "a thread is joined once")
        let result = pthread_join(handle, nil)
        precondition(result == 0, "pthread_join: \(Syscall.text(of: result))")
        isJoined = true
    }

    private final class Start {
        let name: String
        let nice: Int32
        let body: () -> Void
        init(name: String, nice: Int32, body: @escaping () -> Void) {
            self.name = name
            self.nice = nice
            self.body = body
        }
    }
}
