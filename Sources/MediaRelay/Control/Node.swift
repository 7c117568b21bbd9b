import CLinuxIO
import Foundation
import Glibc
import RTPCore
import RelayCore
import RelayHTTP

/// One node: everything that `serve` runs. Opens the journal, puts conductor, supervisor, journal thread, webhooks and HTTP server
/// together, takes them apart. What changes while it runs: `Node+Reload.swift`.
final class Node {
    /// What holds now: of the start, and what reloads have changed.
    var options: ServeOptions
    let log: Log
    let server: HTTPServer
    let journalThread: JournalThread
    let callLog: CallLog
    let control: ControlLoop
    let mailbox: Mailbox<ControlMessage>
    let router: Router
    let webhooks: WebhookThread
    let answers: Answers
    var api: APIConfiguration
    /// As the webhook thread has them.
    var endpoints: [WebhookEndpoint]
    var sounds: SoundLibrary
    /// What the certificate's file held when it was read last.
    var certificate: [UInt8]?
    private let key: SigningKey
    /// Where no key was given.
    let randomSecret: [UInt8]?
    /// A program that ran in this process before this one left its sockets.
    private let isSuccessor: Bool

    /// `handOver`: what the program before this one left, where there was one.
    init(options: ServeOptions, log: Log, handOver: HandOver? = nil) throws {
        self.options = options
        self.log = log
        // Secrets are in our memory: no core dump, no tracing by others.
        _ = lio_forbid_dumps()
        let keys = try KeyLoader.keys(options.keys)
        isSuccessor = handOver != nil
        randomSecret = keys.isEmpty ? handOver?.randomSecret ?? KeyLoader.randomSecret() : nil
        key = try keys.first ?? SigningKey(id: "random", secret: randomSecret ?? [])
        let folder = try DataFolder(path: KeyLoader.made(options.data))
        let now = MonotonicClock.now()
        let journal = try Journal(path: folder.path + "/journal.sqlite", bootID: KeyLoader.bootID())
        let contents = try journal.contents()
        mailbox = try Mailbox(capacity: 8_192)
        answers = Answers(control: mailbox, demoKey: options.demo ? key : nil)
        let answers = answers
        let feed = EventFeed(journal: journal, lastSeq: contents.lastSeq, sink: answers)
        let mailbox = mailbox
        let measures = NodeMeasures()
        journalThread = try JournalThread(
            journal: journal, feed: feed, retention: options.retention,
            onCommit: { turn in mailbox.post(.committed(turn: turn)) },
            onFailure: { text in log.write(.error, "journal: \(text)") }, measures: measures)
        callLog = try CallLog(
            reader: try CallReader(path: folder.path + "/journal.sqlite"), sink: answers,
            onFailure: { text in log.write(.error, text) })
        answers.connect(callLog: callLog)
        let journalThread = journalThread
        endpoints = try WebhookEndpoint.endpoints(of: options)
        webhooks = try Self.webhooks(endpoints, options, contents, log) { journalThread.post($0) }
        let webhooks = webhooks
        let poller = try Poller()
        let known = journal.isFromEarlierBoot ? [] : contents.workers
        let supervisor = try WorkerSupervisor(
            configuration: Self.supervisorConfiguration(options), folder: folder, poller: poller,
            firstToken: ControlLoop.firstSupervisorToken,
            known: known.map { KnownWorker(worker: $0.id, processID: $0.processID) }, now: now)
        let ended = try EndedRooms(path: folder.path + "/journal.sqlite", log: log)
        let (library, faults) = SoundFolder.library(folder: options.prompts)
        sounds = library
        certificate = options.tlsCertificate.flatMap { ConfigurationInput.contents(of: $0) }
        for fault in faults { log.write(.warning, "a prompt's file is left out: \(fault)") }
        var bounds = ConductorConfiguration()
        bounds.transportsPerWorker = options.transportsPerWorker
        bounds.admission = options.admission
        if options.recordings != nil { bounds.recording = options.recordingBounds }
        bounds.retirement = .seconds(options.upgradeDeadlineSeconds)
        let conductor = Conductor(
            from: contents, ended: ended, configuration: bounds, random: .system,
            isSameBoot: !journal.isFromEarlierBoot, sounds: library, log: log)
        let box = ServerBox()
        // Of a successor nobody is served before the workers are back: control could only turn them away.
        let serve: @Sendable () -> Void = { box.resume() }
        control = try ControlLoop(
            conductor: conductor, supervisor: supervisor, poller: poller, journal: journalThread, sink: answers,
            mailbox: mailbox, log: log, measures: measures, onWorkersBack: handOver == nil ? nil : serve)
        api = APIConfiguration(
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
        http.inherited = handOver?.http
        let control = control
        router = Router(
            configuration: api, control: mailbox, answers: answers,
            metrics: {
                NodeMetrics.text(
                    control.status, http: box.counters, measures: measures, webhooks: webhooks.statuses,
                    newestEvent: journalThread.newestEvent)
            },
            readiness: { control.status.readiness },
            node: { NodeMetrics.node(control.status) })
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
            executablePath: ProgramFile.image, workerCount: options.workers,
            mediaAddresses: options.media.map(\.address), announcedAddresses: announced,
            mediaPort: options.media[0].port)
        configuration.programName = ProgramFile.path
        configuration.build = ProgramFile.running
        configuration.mediaTCP = options.mediaTCP
        configuration.gather = options.gather
        configuration.recordings = options.recordings.map { URL(filePath: $0).standardizedFileURL.path }
        configuration.recordingsByteLimit = options.recordingsByteLimit
        configuration.logFormat = options.logFormat
        return configuration
    }

    private static func webhooks(
        _ endpoints: [WebhookEndpoint], _ options: ServeOptions, _ contents: JournalContents, _ log: Log,
        journal: @escaping @Sendable (JournalCommand) -> Bool
    ) throws -> WebhookThread {
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
        // A port that is taken ends the start before there are workers: nobody would end those.
        let ports = try server.start()
        try control.start()
        let scheme = options.tlsCertificate == nil ? "http" : "https"
        for (endpoint, port) in zip(options.http, ports) {
            log.write(.info, "listening", .init("url", .string("\(scheme)://\(endpoint.address):\(port)/")))
        }
        if isSuccessor { return }
        if randomSecret != nil,
            let token = TokenMint.server(expirySeconds: WallClock.nowMs / 1_000 + 12 * 3_600, key: key)
        {
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
    func resume() { server?.resume() }
    var counters: HTTPCounters { server?.counters ?? HTTPCounters() }
}
