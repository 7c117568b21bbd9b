import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// The worker's media loop: sockets, engine, handshaker and link around one poller, in turns of bounded work.
/// Every receive batch is answered before the next one is read; nothing here ever waits except in the poller.
/// Decides nothing about a packet or a room. Confined to the thread that makes and runs it.
final class MediaLoop {
    /// Receive batches of 64 per turn and socket before link, handshaker and timers get their turn.
    private static let batchesPerTurn = 4
    private static let countersInterval = Interval.seconds(2)
    /// Transports whose timers are served between two looks at the clock, and the time after which media has its turn again.
    private static let timersAtOnce = 8
    private static let timerShare = Interval.microseconds(50)
    /// Timers wait this much longer where media comes, which wakes the loop anyway.
    private static let timerPatience = Interval.milliseconds(1)
    /// Timers that are this late are served whatever else there is.
    private static let timerDelay = Interval.milliseconds(10)
    /// Tokens; the sockets have 0 and up, `MediaStreams` has its own.
    private static let linkToken: UInt64 = 100
    private static let handshakerToken: UInt64 = 101
    private static let signalToken: UInt64 = 102
    private static let recorderToken: UInt64 = 103

    let worker: WorkerID
    private let endpoint: WorkerEndpoint
    let engine: MediaEngine
    let sockets: [UDPSocket]
    private let streams: MediaStreams
    private let reader: DatagramReader
    private let writer: DatagramWriter
    private let poller: Poller
    private let handshaker: HandshakerThread
    private let recorder: RecorderThread?
    let link: LinkClient
    private let signals: Int32
    let log: WorkerLog
    private var gather: GatherPolicy
    private var countersDue: Instant
    private var meter: WorkerMeter
    private var handshakeResults: [HandshakeResult] = []
    private var recorderResults: [RecorderThread.Result] = []
    private var isShuttingDown = false
    /// Sockets that the poller is asked about room for, as in `DatagramWriter.blockedSockets`.
    private var watchedForRoom: UInt32 = 0
    /// Since the last batch, or the last of a connection's bytes, came.
    private var hasLookedAtLink = false
    private var loggedErrors = LoggedErrors()
    /// The last turn brought datagrams.
    private var hadMedia = false
    private var turns = TurnLengths()
    /// Nil but while an operator looks at a call.
    var capture: PacketCapture?
    let table: LocalAddressTable

    init(
        options: WorkerOptions, worker: WorkerID, endpoint: WorkerEndpoint, engine: MediaEngine,
        media: MediaSockets,
        handshaker: HandshakerThread, recorder: RecorderThread?, signals: Int32, log: WorkerLog
    ) throws(SystemError) {
        let now = MonotonicClock.now()
        self.worker = worker
        self.endpoint = endpoint
        self.engine = engine
        sockets = media.sockets
        self.handshaker = handshaker
        self.recorder = recorder
        self.signals = signals
        self.log = log
        let table = LocalAddressTable(sockets: sockets)
        self.table = table
        reader = DatagramReader(sockets: sockets, table: table)
        poller = try Poller()
        var limits = MediaStreams.Limits()
        limits.fit(descriptors: lio_raise_descriptor_limit())
        streams = try MediaStreams(listeners: media.listeners, poller: poller, limits: limits)
        writer = DatagramWriter(sockets: sockets, table: table, usesSegmentation: true, streams: streams) {
            engine.rank($0, count: $1, to: $2)
        }
        link = LinkClient(path: options.linkPath, poller: poller, token: Self.linkToken, now: now)
        gather = GatherPolicy(mode: options.gather, now: now, cpu: Self.threadCPU())
        countersDue = now + Self.countersInterval
        meter = WorkerMeter(now: now)
        engine.isAlone = true
        for (index, socket) in sockets.enumerated() {
            try poller.add(socket.descriptor, token: UInt64(index), for: .reading)
        }
        try poller.add(handshaker.resultDescriptor, token: Self.handshakerToken, for: .reading)
        if let recorder { try poller.add(recorder.resultDescriptor, token: Self.recorderToken, for: .reading) }
        try poller.add(signals, token: Self.signalToken, for: .reading)
    }

    /// Runs until control or a signal says to stop, or nobody has wanted the worker for five minutes.
    func run() {
        while !isShuttingDown { turn() }
        finish()
    }

    private func turn() {
        let timers = engine.deadline + (hadMedia ? Self.timerPatience : .zero)
        let deadline = min(
            timers, link.deadline, meter.due, streams.deadline, capture?.deadline ?? .distantFuture)
        let count = poller.wait(until: deadline, now: MonotonicClock.now())
        var now = MonotonicClock.now()
        let start = now
        var waited = Interval.zero
        var readySockets: UInt32 = 0
        for index in 0..<count {
            let event = poller.event(at: index)
            guard event.token < Self.linkToken else { continue }
            if event.isWritable { writer.flushBacklogs() }
            if event.isReadable || event.isHungUp { readySockets |= 1 << UInt32(event.token) }
        }
        hadMedia = readySockets != 0
        // Media first; but while more of it is waited for there is time for everything else.
        let gathers = hadMedia && gather.isGathering
        if hadMedia, !gathers { now = takeMedia(readySockets, began: start) }
        for index in 0..<count { handle(poller.event(at: index), now: now) }
        if gathers {
            if engine.deadline <= now { serveTimers(now: now) }
            waited = waitForMore(until: start + GatherPolicy.wait)
            now = takeMedia(readySockets, began: start)
        }
        if engine.deadline <= now, !gathers { serveTimers(now: now) }
        if let capture, capture.deadline <= now { tellCapture(now: now) }
        if streams.deadline <= now {
            streams.sweep(now: now, isKnown: engine.isKnown)
            forgetGoneStreams()
        }
        keepLink(now: now)
        if writer.blockedSockets != watchedForRoom { watchForRoom() }
        turns.note(MonotonicClock.now() - start - waited)
    }

    private func handle(_ event: Poller.Event, now: Instant) {
        switch event.token {
        case ..<Self.linkToken: break
        case Self.linkToken: receiveCommands(event, now: now)
        case Self.handshakerToken: receiveHandshakes(now: now)
        case Self.signalToken: receiveSignal()
        case Self.recorderToken: receiveRecorder(now: now)
        default: receiveStream(event, now: now)
        }
    }

    /// Timers in small shares, so that no packet waits for those of hundreds of participants. What is left is due at once in
    /// the next turn, behind the media that has come meanwhile.
    private func serveTimers(now: Instant) {
        engine.receiveOverflows = reader.overflowCount
        if engine.deadline + Self.timerDelay <= now {
            engine.advance(to: now)
            return passOn(now: now)
        }
        let end = now + Self.timerShare
        repeat {
            engine.advance(to: now, limit: Self.timersAtOnce)
            passOn(now: now)
        } while engine.deadline <= now && MonotonicClock.now() < end
    }

    // MARK: - Datagrams

    /// The poller tells when a socket whose buffer was full has room again.
    private func watchForRoom() {
        for (index, socket) in sockets.enumerated() {
            let bit = UInt32(1) << UInt32(index)
            guard (writer.blockedSockets ^ watchedForRoom) & bit != 0 else { continue }
            poller.modify(
                socket.descriptor, token: UInt64(index), for: writer.blockedSockets & bit != 0 ? .both : .reading)
        }
        watchedForRoom = writer.blockedSockets
    }

    /// Reads what there is for a turn that began at `began`, and returns the time behind it.
    private func takeMedia(_ readySockets: UInt32, began: Instant) -> Instant {
        let (packets, isEmpty) = receiveDatagrams(readySockets)
        let now = MonotonicClock.now()
        meter.note(isEmpty: isEmpty, began: began, now: now)
        gather.note(packets: packets, now: now, cpu: Self.threadCPU)
        return now
    }

    /// Reads the ready sockets in turn, a batch each, until they are empty or the turn's share is used up.
    /// The poller shows what is left at once.
    private func receiveDatagrams(_ readySockets: UInt32) -> (packets: Int, isEmpty: Bool) {
        var ready = readySockets
        var packets = 0
        for _ in 0..<Self.batchesPerTurn where ready != 0 {
            for socket in 0..<sockets.count where ready & 1 << UInt32(socket) != 0 {
                let now = MonotonicClock.now()
                hasLookedAtLink = false
                let (received, count) = reader.receive(from: socket)
                engine.expect(reader.peers, count: count)
                for index in 0..<count {
                    let datagram = reader.datagrams + index
                    give(
                        datagram.pointee.bytes, count: datagram.pointee.byteCount, from: datagram.pointee.peer,
                        local: datagram.pointee.local, now: now)
                }
                engine.finishBatch(now: now)
                passOn(now: now)
                packets += received
                if received < DatagramReader.slotCount { ready &= ~(1 << UInt32(socket)) }
            }
        }
        return (packets, ready == 0)
    }

    /// One datagram or frame to the engine, which gets room for what comes of it.
    @inline(__always) private func give(
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, local: UInt8, now: Instant
    ) {
        if engine.needsFlush { transmit(now: now) }
        let kind = DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: count)
        if kind == .stun, !hasLookedAtLink {
            // A check may be a new client's: what makes it known was written to the link before its answer, so it lies
            // there now, whenever the poller looked (measured: 1.3 % of first checks).
            hasLookedAtLink = true
            apply(link.receive(now: now), now: now)
        }
        engine.receive(bytes, count: count, from: peer, local: local, now: now)
        // Behind the engine: it knows by now whose check that was. Headers are as they came.
        if capture != nil { captureReceived(bytes, count: count, from: peer, local: local, now: now) }
    }

    @inline(__always) private func transmit(now: Instant) {
        if capture != nil { captureSent(now: now) }
        writer.send(engine.transmit)
    }

    // MARK: - TCP

    private func receiveStream(_ event: Poller.Event, now: Instant) {
        hasLookedAtLink = false
        streams.handle(event, now: now, isKnown: engine.isKnown) { bytes, count, peer in
            give(bytes, count: count, from: peer, local: 0, now: now)
        }
        forgetGoneStreams()
        engine.finishBatch(now: now)
        passOn(now: now)
    }

    private func forgetGoneStreams() {
        for peer in streams.takeGone() { engine.forget(peer) }
    }

    /// Sends what the engine made, and gives its requests and news on.
    private func passOn(now: Instant) {
        if engine.transmit.count > 0 { transmit(now: now) }
        if !engine.recorded.isEmpty { recorder?.post(engine.recorded) }
        handshaker.post(engine.takeHandshakeRequests())
        let news = engine.takeNews()
        if !news.isEmpty { link.tell(news, now: now) }
    }

    /// Returns how long it waited.
    private func waitForMore(until end: Instant) -> Interval {
        let before = MonotonicClock.now()
        guard before < end else { return .zero }
        var time = timespec(tv_sec: 0, tv_nsec: Int((end - before).nanoseconds))
        nanosleep(&time, nil)
        return MonotonicClock.now() - before
    }

    // MARK: - Handshaker, link, signals

    private func receiveHandshakes(now: Instant) {
        handshaker.takeResults(into: &handshakeResults)
        for result in handshakeResults {
            if engine.needsFlushBeforeGates { transmit(now: now) }
            engine.receive(result, now: now)
        }
        // Results hold keys: they are not kept until the next batch.
        handshakeResults.removeAll(keepingCapacity: true)
        passOn(now: now)
    }

    private func receiveCommands(_ event: Poller.Event, now: Instant) {
        apply(link.receive(event, now: now), now: now)
        passOn(now: now)
    }

    private func apply(_ commands: [WorkerCommand], now: Instant) {
        for command in commands {
            switch command {
            case .shutDown:
                isShuttingDown = true
                continue
            case .capture(let order): begin(order, now: now)
            case .stopCapture(let id): stopCapture(id, now: now)
            default: break
            }
            if engine.needsFlushBeforeGates { transmit(now: now) }
            tellRecorder(command, now: now)
            engine.apply(command, now: now)
        }
    }

    /// The recorder hears of a recording before its first packet, and of the end behind the last one.
    private func tellRecorder(_ command: WorkerCommand, now: Instant) {
        switch command {
        case .record(let order) where recorder == nil:
            link.tell(
                [.recorded(RecordingReport(recording: order.recording, room: order.room, end: .failed), at: now)],
                now: now)
        case .record, .nameRecorded, .stopRecording:
            if !engine.recorded.isEmpty { recorder?.post(engine.recorded) }
            recorder?.receive(command, now: now)
        default: break
        }
    }

    private func receiveRecorder(now: Instant) {
        recorder?.takeResults(into: &recorderResults)
        for result in recorderResults {
            switch result {
            case .ended(let report, let at):
                engine.apply(.stopRecording(report.recording), now: now)
                link.tell([.recorded(report, at: at)], now: now)
            case .keyFrame(let participant, let section):
                engine.requestKeyFrame(of: participant, section: section, now: now)
            }
        }
        recorderResults.removeAll(keepingCapacity: true)
        passOn(now: now)
    }

    private func receiveSignal() {
        if Syscall.required("signalfd", { lio_signalfd_take(signals) }) > 0 { isShuttingDown = true }
    }

    private func keepLink(now: Instant) {
        link.advance(to: now) { news in hello(with: news) }
        engine.isAlone = link.isAlone
        if link.hasBeenGivenUp(now: now) {
            log.line("nobody has adopted this worker for 5 minutes: it ends its rooms")
            isShuttingDown = true
        }
        guard meter.due <= now else { return }
        link.tell(
            meter.report(
                now: now, cpu: Self.threadCPU(), packets: reader.datagramCount &+ streams.counters.framesReceived,
                handshakerSteps: handshaker.steps), now: now)
        guard countersDue <= now else { return }
        countersDue = now + Self.countersInterval
        link.tell(
            WorkerCounter.all(
                engine: engine.counters, reader: reader, writer: writer, streams: streams, turns: turns,
                handshakes: handshaker.counters,
                refusedPosts: handshaker.refusedCount, keptNews: link.keptNewsCount,
                droppedNews: link.droppedNewsCount, transports: engine.transportCount,
                usage: WorkerUsage(sockets: sockets), recorder: recorder?.counters ?? RecorderThread.Counters()),
            now: now)
        for text in loggedErrors.lines(for: writer.errors, now: now) { log.line(text) }
    }

    private func hello(with news: [WorkerNews]) -> WorkerHello {
        WorkerHello(
            worker: worker, processID: getpid(), endpoint: endpoint, transports: engine.snapshot(), news: news,
            recordings: recorder?.recordings ?? [], build: ProgramFile.running)
    }

    /// Says goodbye to every client: the handshaker makes the close_notify records, the engine knows where
    /// they go.
    private func finish() {
        let now = MonotonicClock.now()
        engine.apply(.shutDown, now: now)
        passOn(now: now)
        handshaker.stop()
        receiveHandshakes(now: now)
        recorder?.stop()
        receiveRecorder(now: now)
        log.line("ended")
    }

    private static func threadCPU() -> Interval { .nanoseconds(lio_thread_cpu_ns()) }
}
