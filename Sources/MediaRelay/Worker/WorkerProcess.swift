import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// The life of one worker process: prepares what must be right before the first packet, runs the media loop
/// on the calling thread, and says how it ended.
package enum WorkerProcess {
    /// Exit statuses.
    package enum Exit: Int32 {
        case ended = 0
        case usage = 2
        /// The SRTP self-test or OpenSSL failed: nothing that this process sealed could be trusted.
        case cryptography = 3
        /// No media port, no descriptors, no threads.
        case system = 4
    }

    /// Runs the worker that `arguments` (behind `media-relay worker`) describe. Returns when it is to exit.
    package static func run(arguments: [String]) -> Int32 {
        do throws(WorkerOptions.Refusal) {
            return run(try WorkerOptions(arguments: arguments)).rawValue
        } catch {
            WorkerLog(index: -1, format: .text).line("\(error)")
            return Exit.usage.rawValue
        }
    }

    package static func run(_ options: WorkerOptions) -> Exit {
        let log = WorkerLog(index: options.index, format: options.logFormat)
        lio_set_thread_name("media-\(options.index)")
        if lio_forbid_dumps() < 0 { log.line("core dumps could not be forbidden") }
        signal(SIGPIPE, SIG_IGN)
        signal(SIGHUP, SIG_IGN)
        signal(SIGUSR2, SIG_IGN)
        do throws(SRTPSelfTest.Failure) {
            try SRTPSelfTest.run()
        } catch {
            log.line("\(error)")
            return .cryptography
        }
        guard let identity = try? DTLSIdentity() else {
            log.line("no DTLS certificate could be made")
            return .cryptography
        }
        DTLSIdentity.readCertificatesDirectly()
        do throws(SystemError) {
            try serve(options, identity: identity, log: log)
            return .ended
        } catch {
            log.line("\(error)")
            return .system
        }
    }

    private static func serve(
        _ options: WorkerOptions, identity: sending DTLSIdentity, log: WorkerLog
    ) throws(SystemError) {
        let media = try MediaSockets(options)
        let endpoint = WorkerEndpoint(options, media: media, fingerprint: identity.fingerprint)
        // Before the handshaker's thread starts, so that it does not take these signals.
        let signals = try Syscall.checked("signalfd") { lio_signalfd([SIGTERM, SIGINT], 2) }
        defer { Syscall.close(signals) }
        let handshaker = try HandshakerThread(identity: identity, limits: HandshakeLimits())
        if let cpu = options.cpu, lio_set_thread_cpu(Int32(cpu)) < 0 {
            log.line("CPU \(cpu) cannot be used alone")
        }
        var random = SystemRandomNumberGenerator()
        let worker = WorkerID(index: options.index, epoch: random.next())
        var configuration = EngineConfiguration()
        let now = MonotonicClock.now()
        configuration.clockOrigin = NTPTime(unixNanoseconds: max(0, WallClock.nowMs * 1_000_000 - now.nanoseconds))
        let engine = MediaEngine(configuration: configuration, random: .system, now: now)
        let recorder: RecorderThread?
        do throws(SystemError) {
            recorder = try Self.recorder(options, clockOrigin: configuration.clockOrigin, log: log)
        } catch {
            handshaker.stop()
            throw error
        }
        let loop: MediaLoop
        do throws(SystemError) {
            loop = try MediaLoop(
                options: options, worker: worker, endpoint: endpoint, engine: engine, media: media,
                handshaker: handshaker, recorder: recorder, signals: signals, log: log)
        } catch {
            handshaker.stop()
            recorder?.stop()
            throw error
        }
        log.line("serves UDP port \(media.port), \(media.streamPort.map { "TCP port \($0)" } ?? "no TCP")")
        loop.run()
    }

    private static func recorder(
        _ options: WorkerOptions, clockOrigin: NTPTime, log: WorkerLog
    ) throws(SystemError) -> RecorderThread? {
        guard let folder = options.recordings else { return nil }
        return try RecorderThread(
            folder: folder, byteLimit: options.recordingsByteLimit, clockOrigin: clockOrigin, log: log)
    }
}
