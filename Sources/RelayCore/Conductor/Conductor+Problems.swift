import RTPCore

// Who may do what, and the words for a refusal. A room or session that is not there and one that is somebody
// else's get the same answer (T75), so that nobody learns by asking which ids exist.

extension Conductor {
    /// The room, ended or not, if `principal` may know of it.
    func room(_ id: RoomID, for principal: Principal) throws(Problem) -> ConductedRoom {
        guard let room = held(id) else { throw .notFound }
        if case .participant(let identity) = principal {
            guard identity.room == id else { throw .notFound }
            if let endedAtMs = room.record.endedAtMs {
                let lookUntilMs = endedAtMs + ConductorConfiguration.participantsLook.milliseconds
                guard wallClockMs <= lookUntilMs else { throw .notFound }
            }
        }
        return room
    }

    /// The room, if it can still be changed.
    func liveRoom(_ id: RoomID, for principal: Principal) throws(Problem) -> ConductedRoom {
        let room = try room(id, for: principal)
        if let outcome = room.record.outcome { throw .ended(id, outcome) }
        return room
    }

    /// The index of a session that `principal` may act on. One that left is 410 while it is remembered; `joining` is a
    /// claim or a takeover that came too late: 409, where another device answered.
    func session(
        _ id: ParticipantID, in room: ConductedRoom, for principal: Principal, joining: Bool = false
    ) throws(Problem) -> Int {
        if let index = room.record.index(of: id) {
            let participant = room.record.participants[index]
            guard owns(principal, participant.uid, participant.device) else { throw .notFound }
            return index
        }
        guard let departed = departed(id, in: room, for: principal) else { throw .notFound }
        throw .left(departed, joining: joining)
    }

    func departed(
        _ id: ParticipantID, in room: ConductedRoom, for principal: Principal
    ) -> DepartedParticipant? {
        room.record.departed.last { $0.id == id && owns(principal, $0.uid, $0.device) }
    }

    func requireServer(_ principal: Principal) throws(Problem) -> String {
        guard case .server(let keyID) = principal else {
            throw Problem(
                status: 403, code: "forbidden", detail: "this needs the server key, not a participant's token")
        }
        return keyID
    }

    private func owns(_ principal: Principal, _ uid: String, _ device: String) -> Bool {
        switch principal {
        case .server: true
        case .participant(let identity): identity.uid == uid && identity.device == device
        }
    }

    func noRing(_ room: ConductedRoom) -> Problem {
        Problem(status: 409, code: "no-ring", detail: "room \(room.record.id) has no ring")
    }

    func draining() -> Problem {
        Problem(
            status: 503, code: "draining", detail: "this node drains: it takes no new rooms",
            retryAfterSeconds: configuration.retryAfterSeconds)
    }

    func overloaded(_ detail: String) -> Problem {
        Problem(
            status: 503, code: "overloaded", detail: detail,
            retryAfterSeconds: configuration.retryAfterSeconds)
    }
}

extension Problem {
    static let notFound = Problem(
        status: 404, code: "call-not-found", detail: "there is no such room or session for this token")

    static func ended(_ room: RoomID, _ outcome: RoomOutcome) -> Problem {
        Problem(
            status: 410, code: code(of: outcome),
            detail: "room \(room) has ended: \(outcome.rawValue)",
            members: [JSONValue.Field("outcome", .string(outcome.rawValue))])
    }

    /// CALLS.md's code for what is over.
    private static func code(of outcome: RoomOutcome) -> String {
        switch outcome {
        case .rejected, .busy, .cancelled, .unanswered, .expired: outcome.rawValue
        case .unreachable: RoomOutcome.unanswered.rawValue
        case .ended, .failed, .lost, .drained, .nodeLost: RoomOutcome.ended.rawValue
        }
    }

    static func left(_ participant: DepartedParticipant, joining: Bool) -> Problem {
        let reason = participant.reason?.rawValue ?? "replaced"
        let (status, code) =
            switch participant.reason {
            case .answeredElsewhere where joining: (409, "answered-elsewhere")
            case .declined: (410, "rejected")
            case .cancelled: (410, "cancelled")
            case .expired: (410, "expired")
            default: (410, "ended")
            }
        return Problem(
            status: status, code: code,
            detail: "session \(participant.id) has left: \(reason)",
            members: [JSONValue.Field("reason", .string(reason))])
    }
}
