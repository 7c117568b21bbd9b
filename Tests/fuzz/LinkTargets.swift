import Glibc
import RTPCore
import RelayCore
import RelayTesting

@testable import MediaRelay

extension FuzzTarget {
    /// The link's messages are the same in whatever pieces their bytes come, and encode to the bytes that they came in. What a
    /// worker says, if it is a message at all, breaks nothing in a conductor that has rooms there. The first byte is the
    /// size of the pieces.
    static let link = FuzzTarget(
        name: "link", byteLimit: 4_096, seeds: { inputs(LinkScene().frames, behind: 30) }
    ) { bytes in
        let stream = Array(bytes.dropFirst())
        let whole = messages(in: stream, pieceByteCount: max(1, stream.count))
        let pieces = messages(in: stream, pieceByteCount: 1 + Int(bytes[0]))
        require(whole.messages == pieces.messages && whole.refusal == pieces.refusal, "pieces make other messages")
        let again = whole.messages.flatMap { $0.encoded() }
        require(again == Array(stream.prefix(again.count)), "a message of other bytes")
        guard !whole.messages.isEmpty else { return }
        let scene = LinkScene()
        for message in whole.messages { scene.hear(message) }
    }

    private static func messages(
        in stream: [UInt8], pieceByteCount: Int
    ) -> (messages: [LinkMessage], refusal: LinkRefusal?) {
        var framer = LinkFramer()
        var messages: [LinkMessage] = []
        for start in stride(from: 0, to: stream.count, by: pieceByteCount) {
            stream[start..<min(stream.count, start + pieceByteCount)].withUnsafeBytes { framer.append($0) }
            do throws(LinkRefusal) {
                while let message = try framer.next() { messages.append(message) }
            } catch {
                return (messages, error)
            }
        }
        return (messages, nil)
    }

    /// A record of the journal is not understood, or is written as one that reads as the same; and a conductor that begins
    /// with it goes on. The first byte says what the rest is a record of.
    static let journal = FuzzTarget(
        name: "journal", byteLimit: 16_384,
        seeds: {
            let scene = LinkScene()
            return inputs(scene.records, behind: 0) + inputs(Array(scene.sessions.values), behind: 1)
                + inputs(scene.keys, behind: 2)
        }
    ) { bytes in
        let record = Array(bytes.dropFirst())
        let scene = LinkScene()
        switch bytes[0] % 3 {
        case 0: restore(StoredRoom(record: record, sessions: scene.sessions), keys: [])
        case 1:
            for room in scene.records {
                restore(StoredRoom(record: room, sessions: scene.sessions.mapValues { _ in record }), keys: [])
            }
        default:
            guard let key = RecordCoding.decodeKey(record, log: silentLog) else { return }
            checkCoding(key)
            restore(nil, keys: [key])
        }
    }

    private static func checkCoding(_ record: some Codable & Equatable) {
        let again = RecordCoding.decode(type(of: record), RecordCoding.encode(record), log: silentLog)
        require(again == record, "a record that is not read as it was written")
    }

    private static func restore(_ stored: StoredRoom?, keys: [IdempotencyRecord]) {
        let room = stored.flatMap { RecordCoding.decode($0, log: silentLog) }
        guard room != nil || !keys.isEmpty else { return }
        for isSameBoot in [true, false] {
            let scene = LinkScene(restoring: room.map { [$0] } ?? [], keys: keys, isSameBoot: isSameBoot)
            scene.live()
        }
    }
}

let silentLog = Log(level: .error, format: .text, descriptor: open("/dev/null", O_WRONLY))

/// A conductor with a call and a group room on one worker, made the same way each time.
final class LinkScene {
    private static let worker = WorkerID(index: 0, epoch: 1)
    private static let server = Principal.server(keyID: "k")
    private static let endpoint = WorkerEndpoint(
        candidates: [.init(address: "192.0.2.1", port: 40_000)], fingerprint: [UInt8](repeating: 7, count: 32))

    private let conductor: Conductor
    private var now = Instant(nanoseconds: 1_000_000_000_000)
    private var requestCount: UInt64 = 0
    private(set) var keyRecords: [IdempotencyRecord] = []
    private var commands: [WorkerCommand] = []
    private var rooms: [RoomID] = []

    init(restoring records: [RoomRecord], keys: [IdempotencyRecord], nextSeq: UInt64 = 1, isSameBoot: Bool = true) {
        conductor = Conductor(
            configuration: ConductorConfiguration(), random: .seeded(3), restoring: records, idempotency: keys,
            nextSeq: nextSeq, isSameBoot: isSameBoot, knownEnded: { _ in nil },
            answerText: { Answers.text(of: $0, to: $1) })
        rooms = records.map(\.id)
    }

    /// With its rooms and everybody in them.
    convenience init() {
        self.init(restoring: [], keys: [])
        hello()
        create("call", .peer, ring: RingSpecification(caller: "ann", callees: ["ben"]))
        create("group", .group, ring: nil)
        create("over", .peer, ring: nil)
        for (room, uid) in [("call", "ann"), ("call", "ben"), ("group", "cat"), ("group", "dan")] {
            prepare(uid, in: room)
        }
        for case .create(let transport) in commands.prefix(3) {
            decide(.news(Self.worker, .prepared(transport.participant, at: now)))
        }
        ask(.deleteRoom(rooms[2], reason: "done"))
    }

    private func create(_ id: String, _ kind: RoomKind, ring: RingSpecification?) {
        var specification = RoomSpecification(id: RoomID(id), kind: kind, media: .video)
        specification.ring = ring
        ask(.createRoom(specification), key: IdempotencyKey(text: id, digest: "digest of \(id)"))
        rooms += [RoomID(id)].compactMap { $0 }
    }

    private func prepare(_ uid: String, in id: String) {
        guard let room = RoomID(id) else { return }
        let identity = ParticipantIdentity(uid: uid, device: "phone", room: room, grants: .standard)
        let state: PrepareState = id == "group" ? .joined : .prepared
        ask(.prepare(room, state: state, offer: linkOffer), as: .participant(identity))
    }

    private func hello() {
        decide(
            .workerConnected(
                WorkerHello(worker: Self.worker, processID: 1, endpoint: Self.endpoint, transports: [], news: [])))
    }

    private func ask(_ request: ControlRequest, as principal: Principal = LinkScene.server, key: IdempotencyKey? = nil)
    {
        requestCount += 1
        let id = RequestID(requestCount)
        if let key {
            decide(.keyedRequest(id, principal, request, key))
        } else {
            decide(.request(id, principal, request))
        }
    }

    /// The replies to a request from elsewhere. The rooms go on as the invariants say.
    func answer(
        _ id: RequestID, _ principal: Principal, _ request: ControlRequest, _ key: IdempotencyKey?
    ) -> [ControlReply] {
        let turn = decide(key.map { .keyedRequest(id, principal, request, $0) } ?? .request(id, principal, request))
        let broken = conductor.checkInvariants()
        require(broken.isEmpty, "\(broken)")
        return turn.replies.filter { $0.request == id }.map(\.reply)
    }

    @discardableResult
    private func decide(_ input: ConductorInput) -> ConductorTurn {
        now += .milliseconds(1)
        let turn = conductor.decide(input, now: now, wallClockMs: 1_767_225_600_000 + now.nanoseconds / 1_000_000)
        commands += turn.commands.map(\.command)
        keyRecords += turn.idempotency
        for room in turn.changedRooms { _ = conductor.record(of: room).map { RecordCoding.encode($0) } }
        for event in turn.events { require(event.seq <= UInt64(Int64.max), "an event's number that no journal takes") }
        return turn
    }

    /// What the worker says.
    func hear(_ message: LinkMessage) {
        switch message {
        case .hello(let hello): decide(.workerConnected(hello))
        case .news(let news): decide(.news(Self.worker, news))
        case .load(let load): decide(.load(Self.worker, load))
        case .command, .counters, .captured: return
        }
        let broken = conductor.checkInvariants()
        require(broken.isEmpty, "\(broken)")
    }

    /// A restored conductor's life: its worker comes, time passes, everything is asked for and ends.
    func live() {
        hello()
        for room in rooms { ask(.room(room)) }
        ask(.listRooms(status: nil, uid: nil, cursor: nil, limit: 10))
        for _ in 0..<20 where conductor.deadline < .distantFuture {
            now = max(now, min(conductor.deadline, now + .seconds(3_600)))
            decide(.timer)
        }
        for room in rooms { ask(.deleteRoom(room, reason: nil)) }
        decide(.drain)
    }

    // MARK: Seeds

    var roomRecords: [RoomRecord] { rooms.compactMap { conductor.record(of: $0) } }
    var records: [[UInt8]] { roomRecords.map { RecordCoding.encode($0) } }
    var keys: [[UInt8]] { keyRecords.map { RecordCoding.encode($0) } }
    var sessions: [String: [UInt8]] {
        var sessions: [String: [UInt8]] = [:]
        for participant in roomRecords.flatMap(\.participants) {
            sessions[participant.id.text] = RecordCoding.encode(participant.session)
        }
        return sessions
    }

    /// Every kind of message, about those who are in.
    var frames: [[UInt8]] {
        let transports = commands.compactMap { command -> TransportConfiguration? in
            if case .create(let transport) = command { transport } else { nil }
        }
        let news = transports.flatMap { transport -> [WorkerNews] in
            let handle = transport.participant
            return [
                .joined(handle, at: now), .interrupted(handle, at: now), .recovered(handle, at: now),
                .pathChanged(handle, at: now), .media(handle, .audio, at: now), .speaker(handle, at: now),
                .statistics(handle, TransportStatistics(), at: now), .removed(handle, TransportStatistics(), at: now),
                .ended(handle, .closed, at: now, TransportStatistics()),
                .played(handle, PromptHandle(9), .finished, at: now),
                .slots(handle, [SlotOccupant(section: 0, sender: transports[0].participant)], at: now),
            ]
        }
        let snapshots = transports.map {
            TransportSnapshot(
                participant: $0.participant, room: $0.room, phase: .prepared, isInterrupted: false, since: now)
        }
        let hello = WorkerHello(
            worker: Self.worker, processID: 1, endpoint: Self.endpoint, transports: snapshots,
            news: Array(news.prefix(2)))
        let others: [LinkMessage] = [
            .hello(hello), .counters([WorkerCounter("drops", label: "stun-malformed", 7)]),
            .load(
                WorkerLoad(
                    at: now, cpu: .seconds(1), packets: 9, backlog: .zero, residentBytes: 1 << 20, handshakerSteps: 3)),
            .command(
                .slots(ParticipantHandle(5), [SlotWish(section: 1, pinned: ParticipantHandle(6), wantedHeight: 360)])),
            .command(.sound(SoundID(4), packets: [[1, 2]], isLast: true)), .command(.adopted), .command(.shutDown),
            .command(
                .record(
                    RecordingOrder(
                        recording: RecordingHandle(7), room: RoomHandle(8), id: "rec_1", roomName: "r",
                        folder: "r_rec_1",
                        byteLimit: 1 << 30, duration: .seconds(60)))),
            .command(
                .nameRecorded(
                    RecordingHandle(7),
                    RecordedParticipant(handle: ParticipantHandle(5), id: "p_1", uid: "ann", device: "d"))),
            .command(.stopRecording(RecordingHandle(7))),
            .news(
                .recorded(
                    RecordingReport(
                        recording: RecordingHandle(7), room: RoomHandle(8), end: .diskFull,
                        files: [
                            RecordedFile(
                                name: "01-ann-audio.ogg", kind: .audio, byteCount: 5, durationMs: 6, offsetMs: -7)
                        ]),
                    at: now)),
        ]
        let messages = commands.prefix(12).map { LinkMessage.command($0) } + news.map { .news($0) } + others
        return messages.map { $0.encoded() } + [messages.suffix(4).flatMap { $0.encoded() }]
    }
}

private let linkOffer = SimulatedClient(SimulatedClient.Options(), address: .none).offer()
