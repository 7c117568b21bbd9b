import CLinuxIO
import Glibc

/// A detached thread that gets no signals: SIGTERM is the main thread's, and SIGPIPE is nobody's.
enum ServerThread {
    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) {
            self.run = run
        }
    }

    static func start(_ run: @escaping @Sendable () -> Void) throws(HTTPServerError) {
        var all = sigset_t()
        var old = sigset_t()
        sigfillset(&all)
        // A trap's own signals stay, or nothing could report the trap.
        for signal in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT] { sigdelset(&all, signal) }
        // The new thread inherits the mask.
        pthread_sigmask(SIG_SETMASK, &all, &old)
        defer { pthread_sigmask(SIG_SETMASK, &old, nil) }
        let body = Unmanaged.passRetained(Body(run))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                lio_set_thread_name("http")
                Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, body.toOpaque())
        guard result == 0 else {
            body.release()
            throw .system(call: "pthread_create", address: "server", errno: result)
        }
        pthread_detach(thread)
    }
}
