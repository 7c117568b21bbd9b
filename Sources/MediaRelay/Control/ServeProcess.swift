import CLinuxIO
import Glibc

/// The control process: reads its options, starts a `Node`, waits for signals, stops it. Wiring only.
package enum ServeProcess {
    /// Runs `media-relay serve` until SIGTERM or SIGINT. Returns the exit code: 0, 2 for bad arguments, 1 for what failed.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        // Once more at each SIGHUP: flags and environment stay, what is in files may have changed.
        let read = { () throws(ServeOptions.Refusal) in
            try ServeOptions(
                arguments: arguments, environment: environment, processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        }
        let options: ServeOptions
        do throws(ServeOptions.Refusal) {
            options = try read()
        } catch {
            print("media-relay serve: \(error)\n", to: 2)
            return 2
        }
        // Event streams alone may be more than the usual 1,024.
        _ = lio_raise_descriptor_limit()
        let log = Log(level: options.logLevel, format: options.logFormat)
        let signals: SignalReceiver
        do throws(SystemError) {
            signals = try SignalReceiver()
        } catch {
            print("media-relay serve: \(error)\n", to: 2)
            return 1
        }
        do {
            let node = try Node(options: options, log: log)
            try node.start()
            while signals.wait() == SIGHUP { node.reload(read) }
            log.write(.info, "stopping")
            node.stop()
            return 0
        } catch {
            print("media-relay serve: \(error)\n", to: 2)
            return 1
        }
    }

    package static func print(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            // Whoever read it is gone: there is nobody to tell.
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(count, 0))
        }
    }
}

/// SIGTERM, SIGINT and SIGHUP, blocked in every thread and waited for in one. SIGPIPE is ignored.
final class SignalReceiver {
    private var set = sigset_t()

    init() throws(SystemError) {
        signal(SIGPIPE, SIG_IGN)
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&set, number) }
        let result = pthread_sigmask(SIG_BLOCK, &set, nil)
        guard result == 0 else { throw SystemError("block signals", code: result) }
    }

    /// Waits for the next signal and says which.
    func wait() -> Int32 {
        var number: Int32 = 0
        while sigwait(&set, &number) != 0 {}
        return number
    }
}
