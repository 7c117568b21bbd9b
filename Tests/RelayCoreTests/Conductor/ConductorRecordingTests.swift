import RTPCore
import RelayCore
import Testing

/// Who may record what, what workers are told of it, and that every end is told once.
@Suite("Conductor: recordings") struct ConductorRecordingTests {
    private let worker = ConductorHarness.worker(0)

    private func make(bounds: RecordingBounds? = RecordingBounds(minutes: 60, mebibytes: 100)) -> ConductorHarness {
        var configuration = ConductorConfiguration()
        configuration.recording = bounds
        return ConductorHarness(configuration)
    }

    private func pair(_ harness: ConductorHarness) -> (RoomID, HarnessParticipant, HarnessParticipant) {
        let room = harness.createRoom("r")
        return (room, harness.joined("alice", in: room), harness.joined("ben", in: room))
    }

    private func start(
        _ harness: ConductorHarness, _ room: RoomID, by principal: Principal = ConductorHarness.server,
        _ change: (inout RecordingSpecification) -> Void = { _ in }
    ) throws -> RecordingView {
        var specification = RecordingSpecification()
        change(&specification)
        let reply = harness.request(principal, .startRecording(room, specification))
        guard case .recording(let view) = reply else { throw Unexpected(reply: reply) }
        return view
    }
    private struct Unexpected: Error { var reply: ControlReply }

    private func token(_ uid: String, _ room: RoomID, records: Bool) -> Principal {
        var grants = Grants.standard
        grants.record = records
        return .participant(ParticipantIdentity(uid: uid, device: "phone", room: room, grants: grants))
    }

    private func report(
        _ harness: ConductorHarness, _ end: RecordingEnd = .stopped, files: [RecordedFile] = []
    ) throws -> RecordingReport {
        let order = try #require(harness.recording[worker]?.last)
        return RecordingReport(
            recording: order.recording, room: order.room, end: end, files: files, byteCount: 1_000, durationMs: 5_000,
            droppedPackets: 2)
    }

    private func ended(_ harness: ConductorHarness) -> [String?] {
        harness.events.filter { $0.type == .recordingEnded }.map(\.reason)
    }

    @Test("a recording begins with its order, and ends when the worker says that the files are whole")
    func whole() throws {
        let harness = make()
        let (room, alice, _) = pair(harness)
        let view = try start(harness, room) { $0.mix = true }
        #expect(harness.lines == ["recording.started"])
        #expect(harness.lastTurn.events[0].value("recordingId") == .string(view.id.text))
        let order = try #require(harness.recording[worker]?.last)
        #expect(order.id == view.id.text && order.roomName == "r" && order.folder == view.folder && order.mix)
        #expect(order.byteLimit == 100 << 20 && order.duration == .seconds(3_600))
        #expect(harness.named[order.recording] == ["alice", "ben"])
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.recording == view)
        #expect(harness.request(ConductorHarness.server, .stopRecording(room, view.id)) == .done)
        #expect(harness.stopped == [order.recording] && harness.lines.isEmpty)
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.recording?.isEnding == true)
        let file = RecordedFile(
            name: "01-alice-audio.ogg", kind: .audio, participantID: alice.id.text, uid: "alice", byteCount: 900,
            durationMs: 4_980, offsetMs: 12)
        harness.news(.recorded(try report(harness, files: [file]), at: harness.now))
        #expect(harness.lines == ["recording.ended stopped"])
        let event = harness.lastTurn.events[0]
        #expect(event.value("bytes") == .integer(1_000) && event.value("droppedPackets") == .integer(2))
        guard case .array(let files)? = event.value("files") else { return #expect(Bool(false), "no files") }
        #expect(files.count == 1)
        #expect(harness.request(ConductorHarness.server, .room(room)).roomView?.recording == nil)
        #expect(harness.request(ConductorHarness.server, .stopRecording(room, view.id)) == .done, "again is done")
        harness.news(.recorded(try report(harness), at: harness.now))
        #expect(ended(harness) == ["stopped"], "told once")
    }

    @Test("only the server and a token that grants it record, and only their room")
    func rights() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        let refused = harness.problem(
            token("alice", room, records: false), .startRecording(room, RecordingSpecification()))
        #expect(refused?.status == 403)
        let view = try start(harness, room, by: token("alice", room, records: true))
        #expect(harness.lastTurn.events[0].uid == "alice")
        #expect(harness.problem(token("ben", room, records: false), .stopRecording(room, view.id))?.status == 403)
        let other = token("ben", RoomID("other")!, records: true)
        #expect(harness.problem(other, .stopRecording(room, view.id))?.status == 404)
        #expect(harness.request(token("ben", room, records: true), .stopRecording(room, view.id)) == .done)
    }

    @Test("what can not be recorded is refused in words")
    func refusals() throws {
        let off = make(bounds: nil)
        let (quiet, _, _) = pair(off)
        let problem = off.problem(ConductorHarness.server, .startRecording(quiet, RecordingSpecification()))
        #expect(problem?.status == 501 && problem?.code == "recording-off")
        let harness = make()
        let empty = harness.createRoom("empty")
        #expect(
            harness.problem(ConductorHarness.server, .startRecording(empty, RecordingSpecification()))?.code
                == "nobody-to-record")
        let (room, _, _) = pair(harness)
        var large = RecordingSpecification()
        large.minutes = 61
        let limit = harness.problem(ConductorHarness.server, .startRecording(room, large))
        #expect(limit?.status == 422 && limit?.detail == "minutes 61 is more than this node's 60")
        _ = try start(harness, room) { $0.minutes = 2 }
        #expect(harness.recording[worker]?.last?.duration == .seconds(120))
        let again = harness.problem(ConductorHarness.server, .startRecording(room, RecordingSpecification()))
        #expect(again?.status == 409 && again?.code == "already-recording")
        let unknown = harness.problem(ConductorHarness.server, .stopRecording(room, RecordingID("rec_no")!))
        #expect(unknown?.code == "no-such-recording")
    }

    @Test("a worker's own reason is told: the disk is full, a limit is reached", arguments: RecordingEnd.allCases)
    func ownReason(end: RecordingEnd) throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        _ = try start(harness, room)
        harness.news(.recorded(try report(harness, end), at: harness.now))
        #expect(ended(harness) == [end.word])
        _ = try start(harness, room)
        #expect(harness.recording[worker]?.count == 2, "another one may begin")
    }

    @Test("the end of the room, and its last leave, end a recording; its end is told behind room.closed")
    func roomEnds() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        _ = try start(harness, room)
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        #expect(harness.stopped.count == 1 && harness.lines.last?.hasPrefix("room.closed") == true)
        harness.news(.recorded(try report(harness), at: harness.now))
        #expect(ended(harness) == ["room-ended"])
        let group = harness.createRoom("g", kind: .group)
        let carol = harness.joined("carol", in: group)
        _ = try start(harness, group)
        let dave = harness.joined("dave", in: group)
        let order = try #require(harness.recording[worker]?.last)
        #expect(harness.named[order.recording] == ["carol", "dave"], "who comes later has a name as well")
        harness.leave(carol, in: group)
        #expect(harness.stopped.count == 1)
        harness.leave(dave, in: group)
        #expect(harness.stopped.count == 2)
        harness.news(.recorded(try report(harness), at: harness.now))
        #expect(ended(harness) == ["room-ended", "left"])
    }

    @Test("a worker that is lost ends what it recorded, once, also where the room had ended before")
    func workerLost() throws {
        let harness = make()
        let (room, _, _) = pair(harness)
        _ = try start(harness, room)
        harness.lose(worker)
        #expect(ended(harness) == ["worker-lost"])
        harness.connect(worker)
        let (second, alice, _) = {
            let room = harness.createRoom("s")
            return (room, harness.joined("alice", in: room), harness.joined("ben", in: room))
        }()
        _ = try start(harness, second)
        harness.leave(alice, in: second)
        harness.lose(worker)
        #expect(ended(harness) == ["worker-lost", "worker-lost"])
    }

    @Test("a restarted control takes up what runs, orders what was lost, ends what should not run")
    func restart() throws {
        let harness = make()
        let (room, alice, ben) = pair(harness)
        _ = try start(harness, room)
        let order = try #require(harness.recording[worker]?.last)
        let transports = [harness.snapshot(alice, in: room, .joined), harness.snapshot(ben, in: room, .joined)]
        harness.restart()
        harness.connect(worker, transports: transports, recordings: [order.recording, RecordingHandle(99)])
        #expect(harness.stopped == [RecordingHandle(99)] && harness.recording[worker]?.count == 1)
        harness.restart()
        harness.connect(worker, transports: transports)
        #expect(harness.recording[worker]?.count == 2, "the order had not arrived")
        harness.restart()
        let report = RecordingReport(recording: order.recording, room: order.room, end: .diskFull)
        harness.connect(worker, transports: transports, news: [.recorded(report, at: harness.now)])
        #expect(ended(harness) == ["disk-full"] && harness.recording[worker]?.count == 2)
        // The room ends while its worker is away, and control dies as well.
        _ = try start(harness, room)
        harness.decide(.workerDetached(worker))
        _ = harness.request(ConductorHarness.server, .deleteRoom(room, reason: nil))
        harness.restart()
        let last = try #require(harness.recording[worker]?.last)
        harness.connect(worker, recordings: [last.recording])
        #expect(harness.stopped.last == last.recording)
        harness.news(
            .recorded(RecordingReport(recording: last.recording, room: last.room, end: .stopped), at: harness.now))
        #expect(ended(harness) == ["disk-full", "room-ended"])
    }

    @Test("folders' names lead nowhere else")
    func folders() {
        #expect(RecordingOrder.folderName(room: RoomID("a.b")!, recording: "rec_1") == "a.b_rec_1")
        #expect(RecordingOrder.folderName(room: RoomID("..")!, recording: "rec_1") == "%2E._rec_1")
        for bad in ["", ".", "..", ".x", "a/b", "a\u{0}b", String(repeating: "x", count: 256)] {
            #expect(!RecordingOrder.isFolderName(bad))
        }
    }
}
