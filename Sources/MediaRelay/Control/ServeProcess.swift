import CLinuxIO
import Glibc
import RTPCore
import RelayCore
import RelayHTTP

/// The control process: opens the journal, puts conductor, supervisor, journal thread and HTTP server together, waits for a
/// signal, takes them apart. Wiring only.
package enum ServeProcess {
    /// Runs `media-relay serve` until SIGTERM or SIGINT. Returns the exit code: 0, 2 for bad arguments, 1 for what failed.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            print(ServeOptions.usage, to: 1)
            return 0
        }
        let options: ServeOptions
        do throws(ServeOptions.Refusal) {
            options = try ServeOptions(
                arguments: arguments, environment: environment, processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        } catch {
            print("media-relay serve: \(error)\n", to: 2)
            return 2
        }
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
            while signals.wait() == SIGHUP { node.reload() }
            log.write(.info, "stopping")
            node.stop()
            return 0
        } catch {
            print("media-relay serve: \(error)\n", to: 2)
            return 1
        }
    }

    static func print(_ text: String, to descriptor: Int32) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(descriptor, bytes, bytes.count)
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

/// One node: everything that `serve` runs.
final class Node {
    private let options: ServeOptions
    private let log: Log
    private let server: HTTPServer
    private let journalThread: JournalThread
    private let callLog: CallLog
    private let control: ControlLoop
    private let mailbox: Mailbox<ControlMessage>
    private let router: Router
    private let webhooks: WebhookThread
    private let key: SigningKey
    private let isKeyRandom: Bool

    init(options: ServeOptions, log: Log) throws {
        self.options = options
        self.log = log
        // Secrets are in our memory: no core dump, no tracing by others.
        _ = lio_forbid_dumps()
        let keys = try KeyLoader.keys(options.keys)
        isKeyRandom = keys.isEmpty
        key = try keys.first ?? KeyLoader.random()
        let folder = try DataFolder(path: KeyLoader.made(options.data))
        let now = MonotonicClock.now()
        let journal = try Journal(path: folder.path + "/journal.sqlite", bootID: KeyLoader.bootID())
        let contents = try journal.contents()
        mailbox = try Mailbox(capacity: 8_192)
        let answers = Answers(control: mailbox, demoKey: options.demo ? key : nil)
        let feed = EventFeed(journal: journal, lastSeq: contents.lastSeq, sink: answers)
        let mailbox = mailbox
        let timings = RelayTimings()
        journalThread = try JournalThread(
            journal: journal, feed: feed, retention: options.retention,
            onCommit: { turn in mailbox.post(.committed(turn: turn)) },
            onFailure: { text in log.write(.error, "journal: \(text)") }, timings: timings)
        callLog = try CallLog(
            reader: try CallReader(path: folder.path + "/journal.sqlite"), sink: answers,
            onFailure: { text in log.write(.error, text) })
        answers.connect(callLog: callLog)
        let journalThread = journalThread
        webhooks = try Self.webhooks(options, contents, log) { journalThread.post($0) }
        let webhooks = webhooks
        let poller = try Poller()
        let known = journal.isFromEarlierBoot ? [] : contents.workers
        let supervisor = try WorkerSupervisor(
            configuration: Self.supervisorConfiguration(options), folder: folder, poller: poller,
            firstToken: ControlLoop.firstSupervisorToken,
            known: known.map { KnownWorker(worker: $0.id, processID: $0.processID) }, now: now)
        let ended = try EndedRooms(path: folder.path + "/journal.sqlite", log: log)
        let sounds = SoundFolder.library(folder: options.prompts)
        for fault in sounds.faults { log.write(.warning, "a prompt's file is left out: \(fault)") }
        let conductor = Conductor(
            configuration: ConductorConfiguration(), random: .system,
            restoring: contents.rooms.compactMap { RecordCoding.decode($0, log: log) },
            idempotency: contents.keys.compactMap { RecordCoding.decode(IdempotencyRecord.self, $0.record, log: log) },
            nextSeq: contents.lastSeq + 1, isSameBoot: !journal.isFromEarlierBoot,
            knownEnded: { ended.outcome(of: $0) }, shelved: contents.settledRooms,
            unshelve: { ended.record(of: $0) }, sounds: sounds.library,
            answerText: { Answers.text(of: $0, to: $1) })
        control = try ControlLoop(
            conductor: conductor, supervisor: supervisor, poller: poller, journal: journalThread, sink: answers,
            mailbox: mailbox, log: log, timings: timings)
        var api = APIConfiguration(
            verifier: TokenVerifier(
                keys: keys.isEmpty ? [key] : keys, maxLifetimeSeconds: options.maxTokenLifetimeSeconds))
        api.demoKey = options.demo ? key : nil
        api.requestsPerSecond = options.requestsPerSecond
        var http = HTTPConfiguration(
            listeners: options.http.map {
                .init(address: $0.address, port: $0.port, isSecure: options.tlsCertificate != nil)
            })
        if let admin = options.admin {
            api.adminListener = http.listeners.count
            http.listeners.append(.init(address: admin.address, port: admin.port))
        }
        if let certificate = options.tlsCertificate, let privateKey = options.tlsKey {
            http.tls = .init(certificatePath: certificate, privateKeyPath: privateKey)
        }
        let control = control
        let box = ServerBox()
        router = Router(
            configuration: api, control: mailbox, answers: answers,
            metrics: {
                Metrics.text(
                    control.status, http: box.counters, timings: timings, webhooks: webhooks.statuses,
                    newestEvent: journalThread.newestEvent)
            },
            isReady: { control.status.isReady },
            node: { Metrics.node(control.status) })
        let router = router
        server = HTTPServer(configuration: http) { event in router.receive(event) }
        box.connect(server)
        answers.connect(server: server, journal: journalThread)
    }

    private static func supervisorConfiguration(_ options: ServeOptions) -> SupervisorConfiguration {
        var announced = options.announce
        if announced.isEmpty,
            options.media.contains(where: { PeerAddress(address: $0.address, port: 0)?.isWildcard == true })
        {
            announced = LocalAddresses.up()
        }
        var configuration = SupervisorConfiguration(
            executablePath: KeyLoader.executablePath(), workerCount: options.workers,
            mediaAddresses: options.media.map(\.address), announcedAddresses: announced,
            mediaPort: options.media[0].port)
        configuration.mediaTCP = options.mediaTCP
        configuration.gather = options.gather
        configuration.logFormat = options.logFormat
        return configuration
    }

    private static func webhooks(
        _ options: ServeOptions, _ contents: JournalContents, _ log: Log,
        journal: @escaping @Sendable (JournalCommand) -> Bool
    ) throws -> WebhookThread {
        let endpoints = try WebhookEndpoint.endpoints(
            urls: options.webhooks, secrets: options.webhookSecrets, dialects: options.webhookDialects,
            allowsPlainHTTP: options.webhookInsecureHTTP)
        var delivery = WebhookThread.Options()
        delivery.authorities = options.webhookAuthorities
        return try WebhookThread(
            endpoints: endpoints, options: delivery, known: contents.webhooks, newest: contents.lastSeq,
            journal: journal, log: log)
    }

    func start() throws {
        try journalThread.start()
        try callLog.start()
        try webhooks.start()
        try control.start()
        let ports = try server.start()
        let scheme = options.tlsCertificate == nil ? "http" : "https"
        for (endpoint, port) in zip(options.http, ports) {
            log.write(.info, "listening", .init("url", .string("\(scheme)://\(endpoint.address):\(port)/")))
        }
        if isKeyRandom, let token = TokenMint.server(expirySeconds: WallClock.nowMs / 1_000 + 12 * 3_600, key: key) {
            // Not a log entry: the one time that a credential is shown, to whoever started a node without keys.
            ServeProcess.print("No --key was given: a random one is used until the next start.\n", to: 1)
            ServeProcess.print("Server token for 12 h: \(token)\n", to: 1)
        }
        if options.demo, let endpoint = options.http.first, let port = ports.first {
            ServeProcess.print("Demo page: \(scheme)://\(Self.shown(endpoint.address)):\(port)/\n", to: 1)
        }
    }

    private static func shown(_ address: String) -> String {
        switch address {
        case "0.0.0.0", "::": LocalAddresses.up().first ?? "127.0.0.1"
        default: address.contains(":") ? "[\(address)]" : address
        }
    }

    /// Takes up what can change while running: the certificate and its key.
    func reload() {
        do throws(HTTPServerError) {
            try server.reloadTLS()
            log.write(.info, "reloaded: certificate")
        } catch {
            log.write(.error, "the certificate was not reloaded, the old one stays in use: \(error)")
        }
    }

    /// Ends every room, tells it, then stops: answers and events of the end still go out.
    func stop() {
        mailbox.post(.drain)
        control.join()
        // The last events are on disk: endpoints that are up get them now, the others after the next start.
        webhooks.stop(newest: journalThread.newestEvent, grace: .seconds(2))
        journalThread.stop()
        server.stop(graceful: true)
        server.waitUntilStopped()
        callLog.stop()
    }
}

/// Lets the metrics read the server's counters, which are made after the router.
private final class ServerBox: @unchecked Sendable {
    // @unchecked: set once before the server starts.
    private weak var server: HTTPServer?
    func connect(_ server: HTTPServer) { self.server = server }
    var counters: HTTPCounters { server?.counters ?? HTTPCounters() }
}
