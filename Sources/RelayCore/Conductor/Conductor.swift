import RTPCore

/// Owns every room and participant of the node and decides everything about them: requests, workers' news and
/// timers go in one at a time, and each gives one `ConductorTurn`. Nothing is suspended between check and
/// change, so of two that cross the first wins and the other gets a definite answer. It opens nothing, stores
/// nothing and reads no clock; it is confined to the one thread that calls it.
///
/// Contract: `now` never goes back; call `decide(.timer, …)` when `deadline` has come; send a turn's commands
/// at once, store its events, changed rooms and idempotency keys in one transaction, then give out its
/// replies and events.
public final class Conductor {
    /// Whether a room id is known to have ended longer ago than the conductor remembers, and how. Asked only
    /// when a room is created under an id that is not held; the journal answers.
    public typealias KnownEnded = (RoomID) -> RoomOutcome?
    /// The record of a room on the shelf, read from the journal; nil where that fails.
    public typealias Unshelve = (ShelvedRoom) -> RoomRecord?

    /// The answer that a reply to a request becomes; a pure function.
    public typealias AnswerText = (ControlReply, ControlRequest) -> StoredAnswer

    public let configuration: ConductorConfiguration
    let knownEnded: KnownEnded
    let unshelve: Unshelve
    let answerText: AnswerText
    /// What can be played.
    var sounds: SoundLibrary
    /// From what on a worker takes nobody new.
    var admission: AdmissionBounds
    /// Sessions that were refused for want of room, by what was in the way.
    public internal(set) var refusals: [Refusal: UInt64] = [:]
    /// Random for this life of the process, told in `node.started`.
    public let epoch: UInt64

    var random: RandomSource
    var rooms: [RoomID: ConductedRoom] = [:]
    var roomsByHandle: [RoomHandle: ConductedRoom] = [:]
    var roomsByParticipant: [ParticipantHandle: ConductedRoom] = [:]
    /// Everything that a user has, over all rooms, in the order it came.
    var sessions: [String: [ParticipantHandle]] = [:]
    /// The live rooms with a ring in which a user is caller or callee.
    var calls: [String: [RoomHandle]] = [:]
    var workers: [WorkerID: ConductedWorker] = [:]
    var timers = ConductorTimers()
    var tally = ConductorTally()
    var listing = RoomListing()
    /// Ended rooms that are still told about and lie in the journal only.
    var shelf = Shelf()
    /// Ended rooms that are still told about, the longest ended first.
    var endedRooms = Line<(room: RoomHandle, until: Instant)>()
    var idempotency = IdempotencyTable()
    var nextSeq: UInt64
    /// The operator's drain, while there is one.
    var drainRecord: DrainRecord?
    /// All rooms were ended for good.
    var hasShutDown = false
    var isStarted = false
    let isSameBoot: Bool
    /// Legs whose last figures are on their way.
    var awaitedFigures: [ParticipantHandle: AwaitedFigures] = [:]
    /// Recordings whose end has not been told.
    var recordings: [RecordingHandle: RoomHandle] = [:]

    // Of the decision that is being made.
    var turn = ConductorTurn()
    /// Rooms that have changed since what counts in them was looked at.
    var unsettled: [ConductedRoom] = []
    var now = Instant(nanoseconds: 0)
    var wallClockMs: Int64 = 0
    /// Who or what is behind it, for call records.
    var cause: CallCause?

    /// A conductor that goes on where the journal's one stopped.
    /// - Parameters:
    ///   - restoring: every room that had not been forgotten, but for those on the shelf.
    ///   - shelved: ended rooms that had not been forgotten and are settled, with `unshelve` to read their records.
    ///   - idempotency: the keys of the last 24 h.
    ///   - nextSeq: one more than the newest event's number; 1 for a new log.
    ///   - isSameBoot: whether the records' instants are of this boot; if not, their workers are gone.
    ///   - answerText: how replies are written, for those that are given again. The default is for where nobody reads
    ///     them.
    ///   - sounds: everything that prompts may name.
    ///   - drain: the drain that went on when the control process before this one ended.
    public init(
        configuration: ConductorConfiguration, random: RandomSource, restoring: [RoomRecord],
        idempotency: [IdempotencyRecord], nextSeq: UInt64, isSameBoot: Bool,
        knownEnded: @escaping KnownEnded, shelved: [ShelvedRoom] = [], unshelve: @escaping Unshelve = { _ in nil },
        sounds: SoundLibrary = SoundLibrary(), drain: DrainRecord? = nil,
        answerText: @escaping AnswerText = { _, _ in StoredAnswer(status: 200) }
    ) {
        precondition(nextSeq > 0, "event numbers start at 1")
        precondition(configuration.retention >= ConductorConfiguration.participantsLook)
        self.configuration = configuration
        self.knownEnded = knownEnded
        self.unshelve = unshelve
        self.answerText = answerText
        self.sounds = sounds
        admission = configuration.admission
        drainRecord = drain
        self.random = random
        self.nextSeq = nextSeq
        self.isSameBoot = isSameBoot
        epoch = self.random.next()
        // Both in the order of creation, which the listing has.
        var waiting = shelved.sorted { $0.ordinal < $1.ordinal }[...]
        for record in restoring.sorted(by: { $0.ordinal < $1.ordinal }) {
            while let next = waiting.first, next.ordinal < record.ordinal { shelve(waiting.removeFirst()) }
            index(record)
        }
        for room in waiting { shelve(room) }
        for var record in idempotency.sorted(by: { $0.createdAtMs < $1.createdAtMs }) {
            if record.answer == nil, let creation = record.creation, let request = record.request {
                record.answer = answerText(creation, .createRoom(request))
            }
            self.idempotency.insert(record, configuration)
        }
    }

    /// When `decide(.timer, …)` is due at the latest. At once before the first decision, which says
    /// `node.started`.
    public var deadline: Instant { isStarted ? timers.next : Instant(nanoseconds: 0) }

    /// The room to store for a `changedRooms` entry; nil when it is not held.
    public func record(of room: RoomID) -> RoomRecord? { rooms[room]?.record }

    /// One decision. Timers that are due are decided before the input, so that who is first does not hang on
    /// when the caller gets around to them.
    /// - Parameter wallClockMs: milliseconds since the Unix epoch at `now`.
    public func decide(_ input: ConductorInput, now: Instant, wallClockMs: Int64) -> ConductorTurn {
        precondition(now >= self.now, "time went back")
        self.now = now
        self.wallClockMs = wallClockMs
        turn = ConductorTurn()
        cause = CallCause(.node)
        if !isStarted { start() }
        cause = CallCause(.timer)
        decideDueTimers()
        cause = cause(of: input)
        switch input {
        case .request(let id, let principal, let request):
            turn.replies.append((id, reply(to: request, from: principal)))
        case .keyedRequest(let id, let principal, let request, let key):
            turn.replies.append((id, reply(to: request, from: principal, once: key)))
        case .news(let worker, let news):
            receive(news, from: worker)
        case .workerConnected(let hello):
            adopt(hello)
        case .workerDetached(let worker):
            detach(worker)
        case .workerRetiring(let worker):
            retire(worker)
        case .workerGone(let worker):
            lose(worker)
        case .load(let worker, let load):
            take(load, from: worker)
        case .timer:
            break
        case .drain:
            shutDown()
        }
        settleCountdowns()
        decideDrain()
        settleCountdowns()
        dismissIdleWorkers()
        turn.forgottenKeys = idempotency.forgotten
        idempotency.forgotten.removeAll()
        defer { turn = ConductorTurn() }
        return turn
    }

    func reply(to request: ControlRequest, from principal: Principal) -> ControlReply {
        noteReached(by: request, from: principal)
        do throws(Problem) {
            return switch request {
            case .createRoom(let specification):
                try create(specification, for: principal)
            case .listRooms(let status, let uid, let cursor, let limit):
                try list(status: status, uid: uid, cursor: cursor, limit: limit, for: principal)
            case .room(let room):
                try look(at: room, for: principal)
            case .deleteRoom(let room, let reason):
                try delete(room, reason: reason, for: principal)
            case .prepare(let room, let state, let offer, let joinOnAnswer, let earlyKeyFrame):
                try prepare(
                    in: room, state: state, offer: offer, joinOnAnswer: joinOnAnswer, earlyKeyFrame: earlyKeyFrame,
                    for: principal)
            case .join(let room, let participant, let endOthers, let takeover):
                try join(participant, in: room, endOthers: endOthers, takeover: takeover, for: principal)
            case .leave(let room, let participant):
                try leave(participant, in: room, for: principal)
            case .kick(let room, let participant):
                try kick(participant, in: room, for: principal)
            case .trickle(let room, let participant, let ifMatch, let fragment):
                try trickle(participant, in: room, ifMatch: ifMatch, fragment: fragment, for: principal)
            case .changeMedia(let room, let participant, let change):
                try changeMedia(of: participant, in: room, to: change, for: principal)
            case .changeMediaByServer(let room, let participant, let change):
                try changeMedia(of: participant, in: room, byServer: change, for: principal)
            case .requestSlots(let room, let participant, let requests):
                try requestSlots(requests, of: participant, in: room, for: principal)
            case .playPrompt(let room, let specification):
                try playPrompt(specification, in: room, for: principal)
            case .stopPrompt(let room, let prompt):
                try stopPrompt(prompt, in: room, for: principal)
            case .startRecording(let room, let specification):
                try startRecording(specification, of: room, for: principal)
            case .stopRecording(let room, let recording):
                try stopRecording(recording, of: room, for: principal)
            case .video(let room, let word, let uid):
                try video(word, in: room, uid: uid, for: principal)
            case .ringing(let room):
                try ringing(room, for: principal)
            case .answer(let room):
                try answer(room, for: principal)
            case .end(let room, let status, let uid, let scope):
                try end(room, as: status, uid: uid, scope: scope, for: principal)
            case .pushed(let room, let uid, let device):
                try notePush(room, uid: uid, device: device, for: principal)
            case .series(let room):
                try series(of: room, for: principal)
            case .capture(let room, let specification):
                try capture(room, specification, for: principal)
            case .logout(let uid):
                try logOut(uid, for: principal)
            case .drain(let time):
                try drain(within: time, for: principal)
            case .undrain:
                try undrain(for: principal)
            }
        } catch {
            return .problem(error)
        }
    }
}

/// A room as the conductor holds it.
final class ConductedRoom {
    var record: RoomRecord
    /// Its worker is away: what is known here may be older than what the worker knows, so the room's timers
    /// wait for its hello.
    var isAwaitingWorker = false
    /// Stands in the conductor's `unsettled`.
    var isUnsettled = false
    /// Of those who are joined.
    var monitors: [ParticipantHandle: QualityMonitor] = [:]
    var recorders: [ParticipantHandle: LegRecorder] = [:]
    init(_ record: RoomRecord) { self.record = record }
}

/// A worker process as the conductor knows it.
final class ConductedWorker {
    let id: WorkerID
    /// Nil until its hello.
    var endpoint: WorkerEndpoint?
    var isConnected = false
    /// What it was given on this connection.
    var sounds: Set<SoundID> = []
    var rooms: Set<RoomHandle> = []
    var transportCount = 0
    /// What it carries by its own reports, and whether it takes somebody new.
    var admission = WorkerAdmission()
    /// Another one has taken its place: it gets no new rooms.
    var isRetiring = false
    /// It was told to leave, as its last room had ended.
    var isDismissed = false
    /// It understands commands to capture and to record.
    var canCapture = false
    init(_ id: WorkerID) { self.id = id }
}
