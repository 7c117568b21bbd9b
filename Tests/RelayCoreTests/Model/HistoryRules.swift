import RTPCore
import RelayCore

/// What must be true of every history, said without looking into the conductor: from what clients asked, what they and the
/// consumers of events were told, and what workers were commanded.
struct HistoryRules {
    private(set) var failure: String?
    private(set) var nextSeq: UInt64 = 1
    /// Participants whose gate a command has just opened: they must have asked for it.
    var mustMayOpen: [ParticipantHandle] = []
    /// Control died with a decision that was carried out and not told; adoption tells it.
    var isTorn = false
    /// How often what happened, to see that histories go everywhere.
    private(set) var seen: [String: Int] = [:]

    private struct Life {
        var nextRoomSeq: UInt64 = 1
        var isCall = false
        var isGroup = false
        var caller = ""
        var callees: [String] = []
        var answered: Set<String> = []
        var rang: Set<String> = []
        var over: Set<String> = []
        var outcome: String?
        var isClosed = false
    }
    private var lives: [RoomID: Life] = [:]
    private var states: [ParticipantID: ParticipantState] = [:]
    private var handles: [ParticipantHandle: (id: ParticipantID, seat: Seat)] = [:]
    private var recorded: [RoomID: RoomOutcome] = [:]

    private struct Seat: Hashable {
        var room: RoomID
        var uid: String
        var device: String
    }
    /// Devices that asked to be joined in a room, or to be once the call is answered.
    private var wants: Set<Seat> = []
    private var wantsOnAnswer: Set<Seat> = []

    mutating func fail(_ what: String) { if failure == nil { failure = what } }
    mutating func note(_ what: String) { seen[what, default: 0] += 1 }

    func caller(of room: RoomID) -> String? { lives[room].flatMap { $0.isCall ? $0.caller : nil } }
    func callees(of room: RoomID) -> [String] { lives[room]?.callees ?? [] }

    // MARK: What clients asked and were answered

    mutating func asked(_ request: ControlRequest, by principal: Principal) {
        guard case .participant(let who) = principal else { return }
        let seat = Seat(room: who.room, uid: who.uid, device: who.device)
        switch request {
        case .prepare(_, let state, _, let isOnAnswer, _):
            if state == .joined || state == nil { wants.insert(seat) }
            if isOnAnswer { wantsOnAnswer.insert(seat) }
        case .join: wants.insert(seat)
        default: break
        }
    }

    /// An ended room answers with its outcome, whatever was asked.
    mutating func answered(_ request: ControlRequest, with reply: ControlReply, record: RoomRecord?) {
        switch reply {
        case .problem(let problem):
            note("\(problem.status) \(problem.code)")
            if problem.status == 500 { fail("a request was answered with 500") }
            if problem.status == 410, problem.members.isEmpty { fail("410 without a word why") }
        case .room(let view):
            if case .end = request, let record, record.status == .ended, view.outcome != record.outcome {
                fail("an end was answered without the outcome")
            }
        default: break
        }
        if let record, let outcome = record.outcome, case .answer = request {
            if case .problem(let problem) = reply, [403, 404, 409, 410, 422].contains(problem.status) { return }
            if case .repeated = reply { return }
            fail("an answer in a room that ended as \(outcome) was answered with \(reply)")
        }
    }

    mutating func noteOutcome(of record: RoomRecord) {
        for participant in record.participants {
            handles[participant.handle] = (
                participant.id, Seat(room: record.id, uid: participant.uid, device: participant.device)
            )
        }
        guard let outcome = record.outcome else {
            if recorded[record.id] != nil { fail("\(record.id) lives again") }
            return
        }
        if let before = recorded.updateValue(outcome, forKey: record.id), before != outcome {
            fail("\(record.id) ended as \(before) and then as \(outcome)")
        }
    }

    // MARK: What was told

    mutating func follow(_ events: [RelayEvent], isOneDecision: Bool) {
        for event in events { follow(event) }
        if isOneDecision, let wrong = Self.disorder(of: events) { fail(wrong) }
        checkGates()
    }

    /// No gate is opened for one who did not ask, nor for a callee before the claim is told.
    private mutating func checkGates() {
        // What a decision opened that was lost with the process stays open: adoption tells the fact.
        guard !isTorn else {
            for handle in mustMayOpen { if let seat = handles[handle]?.seat { wants.insert(seat) } }
            return mustMayOpen.removeAll()
        }
        for handle in mustMayOpen {
            guard let (_, seat) = handles[handle] else { continue }
            let life = lives[seat.room] ?? Life()
            let mayOpen = wants.contains(seat) || (wantsOnAnswer.contains(seat) && !life.answered.isEmpty)
            if !mayOpen { fail("the gate of \(seat.uid)/\(seat.device) was opened unasked") }
            if life.isCall, life.callees.contains(seat.uid), !life.answered.contains(seat.uid) {
                fail("the gate of \(seat.uid) was opened before its claim")
            }
        }
        mustMayOpen.removeAll(keepingCapacity: true)
    }

    private mutating func follow(_ event: RelayEvent) {
        if event.seq != nextSeq { fail("seq \(event.seq) after \(nextSeq - 1)") }
        nextSeq = event.seq + 1
        note(event.type.rawValue)
        guard let room = event.roomID else { return }
        var life = lives[room] ?? Life()
        if event.roomSeq != life.nextRoomSeq { fail("roomSeq \(event.roomSeq) of \(room), not \(life.nextRoomSeq)") }
        life.nextRoomSeq = event.roomSeq + 1
        if life.isClosed { fail("\(event.line) after room.closed") }
        if let wrong = Self.apply(event, to: &life) { fail(wrong) }
        if event.type == .callEnded { note("outcome \(life.outcome ?? "")") }
        if event.type == .roomClosed { note("closed \(event.reason ?? "")") }
        lives[room] = life
        if let id = event.participantID { follow(event, of: id) }
    }

    private static func apply(_ event: RelayEvent, to life: inout Life) -> String? {
        let uid = event.uid ?? ""
        let isAfterEnd = life.outcome != nil && ![.participantLeft, .roomClosed].contains(event.type)
        var wrong: String? = isAfterEnd ? "\(event.line) after the call's end" : nil
        switch event.type {
        case .callInitiated:
            if life.isCall { wrong = "two call.initiated" }
            life.isCall = true
            life.caller = uid
            life.isGroup = event.value("isPeerCall") == .bool(false)
            if case .array(let callees)? = event.value("callees") {
                life.callees = callees.compactMap { if case .string(let text) = $0 { text } else { nil } }
            }
        case .callRinging:
            if !life.rang.insert(uid).inserted || life.answered.contains(uid) { wrong = "\(event.line) twice or late" }
        case .callAnswered:
            let isFirst = life.answered.insert(uid).inserted
            if !isFirst || !life.callees.contains(uid) || life.over.contains(uid) { wrong = "\(event.line) may not be" }
            if !life.isGroup, life.answered.count > 1 { wrong = "two claims" }
        case .calleeEnded:
            if !life.isGroup || !life.over.insert(uid).inserted { wrong = "\(event.line) may not be" }
        case .participantJoined where life.isCall:
            if life.callees.contains(uid), !life.answered.contains(uid) { wrong = "\(uid) joined without a claim" }
        case .callEnded:
            guard case .string(let outcome)? = event.value("outcome") else { return "call.ended without an outcome" }
            if life.outcome != nil || !life.isCall { wrong = "a second call.ended, or without a call" }
            life.outcome = outcome
            wrong = wrong ?? judge(outcome, life)
        case .roomClosed:
            if life.isCall, life.outcome == nil { wrong = "room.closed before call.ended" }
            life.isClosed = true
        default: break
        }
        return wrong
    }

    /// Outcomes of before the claim and of after it do not mix.
    private static func judge(_ outcome: String, _ life: Life) -> String? {
        let isOfRinging = ["rejected", "busy", "cancelled", "unanswered", "unreachable"].contains(outcome)
        let isOfClaimed = ["failed", "lost", "node-lost"].contains(outcome)
        if isOfRinging && !life.answered.isEmpty || isOfClaimed && life.answered.isEmpty {
            return "\(outcome) with \(life.answered.count) claims"
        }
        if outcome == "unreachable", !life.rang.isEmpty, !life.isGroup { return "unreachable after ringing" }
        if life.isGroup, !life.callees.allSatisfy({ life.over.contains($0) || life.answered.contains($0) }) {
            return "a callee was not told of"
        }
        return nil
    }

    /// connecting → prepared → joined → left or replaced, each at most once.
    private mutating func follow(_ event: RelayEvent, of id: ParticipantID) {
        let state = states[id]
        let next: ParticipantState? =
            switch event.type {
            case .participantConnecting: state == nil ? .connecting : nil
            case .participantPrepared: state == .connecting ? .prepared : nil
            case .participantJoined: state == .prepared ? .joined : nil
            case .participantLeft, .participantReplaced: state == nil || state == .left ? nil : .left
            default: state == .left ? nil : state
            }
        guard let next else { return fail("\(event.line) after \(state.map { $0.rawValue } ?? "nothing")") }
        states[id] = next
    }

    mutating func finish() {
        for (room, life) in lives {
            if !life.isClosed { fail("\(room) was never closed") }
            if life.isCall, life.outcome == nil { fail("\(room) has no call.ended") }
            if life.isCall, let outcome = recorded[room], outcome.rawValue != life.outcome {
                fail("\(room) was told as \(life.outcome ?? "") and recorded as \(outcome)")
            }
        }
        if let (id, _) = states.first(where: { $0.value != .left }) { fail("\(id) never left") }
    }

    /// CALLS.md, "Order within a decision"; nil when it is kept.
    static func disorder(of events: [RelayEvent]) -> String? {
        guard events.count > 1 else { return nil }
        for room in Set(events.compactMap(\.roomID)) {
            let types = events.filter { $0.roomID == room }.map(\.type)
            guard let first = types.first, !types.contains(.participantReplaced) else { continue }
            var isKept = true
            if types.contains(.callEnded) {
                let order = types.compactMap(rank)
                isKept = order == order.sorted()
            } else if let answered = types.firstIndex(of: .callAnswered) {
                let early = types[..<answered]
                let joins = types.firstIndex(of: .participantJoined) ?? types.count
                isKept =
                    !early.contains(.participantLeft) && !early.contains(.participantJoined)
                    && !types[joins...].contains(.participantLeft)
            } else if first == .roomCreated {
                isKept = types.count == 1 || types[1] == .callInitiated
            }
            if !isKept { return "out of order: \(types.map(\.rawValue))" }
        }
        return nil
    }

    private static func rank(_ type: RelayEventType) -> Int? {
        switch type {
        case .roomCreated: 0
        case .callInitiated: 1
        case .participantPrepared: 2
        case .callRinging: 3
        case .callAnswered: 4
        case .calleeEnded: 5
        case .callEnded: 6
        case .participantLeft: 7
        case .roomClosed: 8
        default: nil
        }
    }
}
