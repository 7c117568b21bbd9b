import CLinuxIO
import Glibc
import RelayCore
import RelayHTTP

/// The control process: reads its options, starts a `Node`, waits for signals: SIGHUP reloads, or goes over to
/// another program where one lies in this one's place; SIGUSR2 starts the program anew in any case; SIGTERM and SIGINT stop. Wiring only.
package enum ServeProcess {
    /// Runs `media-relay serve` until SIGTERM or SIGINT. Returns the exit code: 0, 2 for bad arguments, 1 for what failed.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        // Once more at each SIGHUP: flags and environment stay, what is in files may have changed.
        let read = { () throws(ServeOptions.Refusal) in
            try ServeOptions(
                arguments: arguments, environment: environment, processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        }
        let handOver = HandOver.taken()
        let options: ServeOptions
        do throws(ServeOptions.Refusal) {
            options = try read()
        } catch {
            Upgrade.goBack(handOver, because: "\(error)", log: Log(level: .info, format: .text))
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
            let node = try Node(options: options, log: log, handOver: handOver)
            try node.start()
            if let handOver { tell(handOver, log) }
            let upgrade = Upgrade(log: log, arguments: arguments)
            while true {
                switch signals.wait() {
                case SIGUSR2: upgrade.run(node)
                case SIGHUP where ProgramFile.isReplaced: upgrade.run(node)
                case SIGHUP: node.reload(read)
                default:
                    log.write(.info, "stopping")
                    node.stop()
                    return 0
                }
            }
        } catch {
            Upgrade.goBack(handOver, because: "\(error)", log: log)
            print("media-relay serve: \(error)\n", to: 2)
            return 1
        }
    }

    private static func tell(_ handOver: HandOver, _ log: Log) {
        if let failure = handOver.failure {
            log.write(.error, "the upgrade failed, \(Version.text) goes on: \(failure)")
        } else {
            log.write(
                .info, "\(Version.text) has taken over",
                .init("connections", .integer(Int64(handOver.http.connections.count))))
        }
        if let image = handOver.image { Glibc.close(image) }
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

/// SIGTERM, SIGINT, SIGHUP and SIGUSR2, blocked in every thread and waited for in one. SIGPIPE is ignored.
final class SignalReceiver {
    private var set = sigset_t()

    init() throws(SystemError) {
        signal(SIGPIPE, SIG_IGN)
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP, SIGUSR2] { sigaddset(&set, number) }
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
