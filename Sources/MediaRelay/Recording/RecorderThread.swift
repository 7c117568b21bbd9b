import Glibc
import RTPCore
import RelayCore

/// The worker's third thread, where it records: takes what the media loop copied, writes it into files, tells what has ended. A disk that is
/// slow, full or gone is a report, and no business of the media loop's. Every mix has a thread of its own for its time.
final class RecorderThread {
    private static let nice: Int32 = 3
    static let resultCapacity = 4_096

    /// What the media loop is to carry out or to tell.
    enum Result: Sendable {
        case ended(RecordingReport, at: Instant)
        /// This m-line cannot go on without a key frame.
        case keyFrame(ParticipantHandle, section: UInt8)
    }

    struct Counters: Sendable {
        var running = 0
        var byteCount: UInt64 = 0
        var droppedPackets: UInt64 = 0
        var endedRecordings: UInt64 = 0
    }

    /// What the two threads share.
    final class Shared: @unchecked Sendable {
        // @unchecked: queue and mailbox are made for sharing, the rest is touched under `lock` only.
        let queue: RecorderQueue
        let results: Mailbox<Result>
        private let lock = Lock()
        private var sharedCounters = Counters()

        init() throws(SystemError) {
            queue = try RecorderQueue()
            results = try Mailbox(capacity: RecorderThread.resultCapacity)
        }

        var counters: Counters {
            get { lock.withLock { sharedCounters } }
            set { lock.withLock { sharedCounters = newValue } }
        }
    }

    private let shared: Shared
    private let thread: Thread
    /// Those that were ordered and have not been told as ended, for the hello. Of the media loop.
    private(set) var recordings: [RecordingHandle] = []

    /// - Parameters:
    ///   - folder: an absolute path.
    ///   - byteLimit: of everything in it.
    ///   - clockOrigin: the engine's.
    init(folder: String, byteLimit: Int64, clockOrigin: NTPTime, log: WorkerLog) throws(SystemError) {
        let shared = try Shared()
        self.shared = shared
        let poller = try Poller()
        try poller.add(shared.queue.wakeUp.descriptor, token: 0, for: .reading)
        let start = Start(folder: folder, byteLimit: byteLimit, clockOrigin: clockOrigin, log: log, poller: poller)
        let body: @Sendable () -> Void = { Self.run(start, shared) }
        thread = try Thread(named: "recorder", nice: Self.nice, body)
    }

    /// Everything that moves to the thread when it starts.
    private struct Start: @unchecked Sendable {
        // @unchecked: handed over as a whole; the starting thread keeps nothing of it.
        let folder: String
        let byteLimit: Int64
        let clockOrigin: NTPTime
        let log: WorkerLog
        let poller: Poller
    }

    // MARK: - Media loop's side

    /// Readable when results wait.
    var resultDescriptor: Int32 { shared.results.wakeUp.descriptor }
    var counters: Counters { shared.counters }

    func post(_ batch: RecordedBatch) { shared.queue.post(batch) }

    func receive(_ command: WorkerCommand, now: Instant) {
        switch command {
        case .record(let order):
            guard !recordings.contains(order.recording) else { return }
            recordings.append(order.recording)
            shared.queue.change { $0.orders.append((order, now)) }
        case .nameRecorded(let recording, let participant):
            shared.queue.change { $0.names.append((recording, participant)) }
        case .stopRecording(let recording): shared.queue.change { $0.stops.append(recording) }
        default: preconditionFailure("no command for the recorder")
        }
    }

    func takeResults(into batch: inout [Result]) {
        shared.results.wakeUp.clear()
        shared.results.take(into: &batch)
        for case .ended(let report, _) in batch { recordings.removeAll { $0 == report.recording } }
    }

    /// Ends every recording and waits until its files are finished; mixes are given up. Their reports can be taken afterwards.
    func stop() {
        shared.queue.change { $0.isStopping = true }
        thread.join()
    }

    // MARK: - The thread

    private static func run(_ start: Start, _ shared: Shared) {
        let recorder = Recorder(
            folder: start.folder, byteLimit: start.byteLimit, clockOrigin: start.clockOrigin, log: start.log,
            shared: shared)
        recorder.recover()
        var load = RecorderQueue.Load()
        while true {
            _ = start.poller.wait(until: recorder.deadline, now: MonotonicClock.now())
            shared.queue.wakeUp.clear()
            shared.queue.take(into: &load)
            recorder.receive(load, now: MonotonicClock.now())
            recorder.advance(to: MonotonicClock.now())
            guard load.isStopping else { continue }
            recorder.stop(now: MonotonicClock.now())
            shared.queue.close(&load)
            return
        }
    }
}
