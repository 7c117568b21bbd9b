import RTPCore
import RelayCore

/// What the supervisor starts and how. Filled from the command line of `media-relay serve`.
package struct SupervisorConfiguration: Sendable {
    /// The `media-relay` binary.
    package var executablePath: String
    /// How workers are named to `ps`; nil: by that path.
    package var programName: String?
    /// Which program file this process runs: workers that run another one are replaced and retire. Nil: all stay.
    package var build: String?
    /// One worker per media core.
    package var workerCount: Int
    /// IP addresses to bind and to tell clients, as in `WorkerOptions`.
    package var mediaAddresses: [String]
    package var announcedAddresses: [String]
    /// First of 2 × `workerCount` ports; 0: any free ones.
    package var mediaPort: UInt16
    package var mediaTCP = MediaTCP.mediaPort
    package var gather = WorkerOptions.Gather.auto
    /// Form of the workers' log lines.
    package var logFormat = Log.Format.text
    /// Where workers record, an absolute path, and how large all of it may be; nil: nowhere.
    package var recordings: String?
    package var recordingsByteLimit: Int64 = 0
    /// Pins worker i to CPU i.
    package var pinsWorkers = false
    /// Where the workers' standard output and error go; they outlive control, so a file or a journal's socket
    /// is best.
    package var outputDescriptor: Int32 = 2

    /// A running process that does not speak to us for so long after its start or the loss of its link is
    /// killed: it hangs.
    package var silenceLimit = Interval.seconds(15)
    /// The same for one whose link is open: after `hangLimit` it is suspected, and killed if it says nothing for `hangGrace`
    /// more, in which control itself ran.
    package var hangLimit = Interval.seconds(6)
    package var hangGrace = Interval.seconds(3)
    /// Reports in a row, one a second, between which its handshaker made no step: so many, and the worker is killed.
    package var silentHandshakerReports = standardSilentReports
    package static let standardSilentReports = 6

    package init(
        executablePath: String, workerCount: Int, mediaAddresses: [String], announcedAddresses: [String],
        mediaPort: UInt16
    ) {
        precondition((1...1_024).contains(workerCount), "\(workerCount) workers")
        self.executablePath = executablePath
        self.workerCount = workerCount
        self.mediaAddresses = mediaAddresses
        self.announcedAddresses = announcedAddresses
        self.mediaPort = mediaPort
    }

    /// A worker's seat, 0 ..< workerCount. Two indices share one, and so do two pairs of media ports: while a worker retires its
    /// successor has the other.
    package func seat(of index: Int) -> Int { index % workerCount }
    /// In the order in which they are taken.
    package func indices(ofSeat seat: Int) -> [Int] { [seat, seat + workerCount] }

    package func options(index: Int, linkPath: String) -> WorkerOptions {
        var options = WorkerOptions(
            index: index, count: workerCount, linkPath: linkPath, mediaAddresses: mediaAddresses,
            announcedAddresses: announcedAddresses, mediaPort: mediaPort)
        options.tcp = mediaTCP
        options.gather = gather
        options.logFormat = logFormat
        options.recordings = recordings
        options.recordingsByteLimit = recordingsByteLimit
        options.cpu = pinsWorkers ? seat(of: index) : nil
        return options
    }
}

/// What the supervisor tells, in the order in which it became known.
package enum SupervisorEvent: Hashable, Sendable {
    /// A worker (re)connected. The conductor answers with `.adopted` when it has taken everything over.
    case hello(WorkerHello)
    case news(WorkerID, WorkerNews)
    case counters(WorkerID, [WorkerCounter])
    case load(WorkerID, WorkerLoad)
    case captured(WorkerID, CapturePart)
    /// The link broke while the process lives: it may come back by itself, and hears nothing until then.
    case detached(WorkerID)
    /// It runs another program file than this process, and a worker that does not has taken its seat.
    case retiring(WorkerID)
    /// The process is gone, and its rooms with it. `cause` is for the log: "killed by signal 11".
    case gone(WorkerID, cause: String)
    /// Something for the log that concerns nobody's room.
    case note(String)
}

/// A worker of an earlier control process, as the journal remembers it.
package struct KnownWorker: Hashable, Sendable {
    package var worker: WorkerID
    package var processID: Int32
    package init(worker: WorkerID, processID: Int32) {
        self.worker = worker
        self.processID = processID
    }
}

/// Whether a worker's handshaker thread lives, by the steps that the worker's media loop tells of it. Counts reports, not time: when
/// the machine stood still nobody is to blame.
package struct HandshakerPulse: Hashable, Sendable {
    private var steps: UInt64?
    /// Reports in a row with the same number as the one before.
    package private(set) var silentReports = 0

    package init() {}

    package mutating func take(_ steps: UInt64) {
        silentReports = steps == self.steps ? silentReports + 1 : 0
        self.steps = steps
    }
}

/// How long an index waits until its next worker is started: not at all after a worker that lived, ever
/// longer after workers that died at once.
package struct RestartBackOff {
    package static let shortLife = Interval.seconds(10)
    package static let longest = Interval.seconds(5)
    private var next = Interval.zero

    package init() {}

    /// The wait after a worker that lived for `life`.
    package mutating func wait(afterLifeOf life: Interval) -> Interval {
        guard life < Self.shortLife else {
            next = .zero
            return .zero
        }
        defer { next = next == .zero ? .milliseconds(100) : min(next * 2, Self.longest) }
        return next
    }
}
