import RelayCore
import RelayHTTP

/// Every path of the API with its methods: the one table that says what exists. What a route needs to be allowed is in `access`.
enum Route: Equatable {
    case health, ready, metrics, node, openAPI
    case drain
    case page(String)
    case demoSession
    case rooms
    case room(RoomID)
    case sessions(RoomID)
    case session(RoomID, ParticipantID)
    case join(RoomID, ParticipantID)
    case slots(RoomID, ParticipantID)
    case participant(RoomID, ParticipantID)
    case ringing(RoomID), answer(RoomID), end(RoomID), pushed(RoomID)
    case media(RoomID)
    case series(RoomID)
    case capture(RoomID)
    case prompts(RoomID)
    case prompt(RoomID, PromptID)
    case recordings(RoomID)
    case recording(RoomID, RecordingID)
    case userSessions(String)
    case roomEvents(RoomID)
    case events
    case calls
    case call(RoomID)

    enum Access { case open, server, participant, either }

    /// Nil: no such path.
    init?(_ request: HTTPRequest) {
        guard let path = request.pathSegments else { return nil }
        switch path.count {
        case 0: self = .page("index.html")
        case 1: self.init(single: path[0])
        case 2 where path[0] == "v1": self.init(collection: path[1])
        case 2 where path == ["demo", "session"]: self = .demoSession
        case 3 where path == ["v1", "node", "drain"]: self = .drain
        case 4 where path[0] == "v1" && path[1] == "users" && path[3] == "sessions":
            guard isIdentifier(path[2]) else { return nil }
            self = .userSessions(path[2])
        case 3 where path[0] == "v1" && path[1] == "calls":
            guard let room = RoomID(path[2]) else { return nil }
            self = .call(room)
        case 3... where path[0] == "v1" && path[1] == "rooms":
            guard let room = RoomID(path[2]) else { return nil }
            self.init(room: room, rest: path[3...])
        default: return nil
        }
    }

    private init?(single name: String) {
        switch name {
        case "healthz": self = .health
        case "readyz": self = .ready
        case "metrics": self = .metrics
        case "status": self = .page("status.html")
        default:
            guard PageFiles.names.contains(name) else { return nil }
            self = .page(name)
        }
    }

    private init?(collection name: String) {
        switch name {
        case "rooms": self = .rooms
        case "events": self = .events
        case "calls": self = .calls
        case "node": self = .node
        case "openapi.json": self = .openAPI
        default: return nil
        }
    }

    private init?(room: RoomID, rest: ArraySlice<String>) {
        let rest = Array(rest)
        switch rest.count {
        case 0: self = .room(room)
        case 1 where rest[0] == "sessions": self = .sessions(room)
        case 1 where rest[0] == "events": self = .roomEvents(room)
        case 1 where rest[0] == "ringing": self = .ringing(room)
        case 1 where rest[0] == "answer": self = .answer(room)
        case 1 where rest[0] == "end": self = .end(room)
        case 1 where rest[0] == "media": self = .media(room)
        case 1 where rest[0] == "series": self = .series(room)
        case 1 where rest[0] == "capture": self = .capture(room)
        case 1 where rest[0] == "pushed": self = .pushed(room)
        case 1 where rest[0] == "prompts": self = .prompts(room)
        case 1 where rest[0] == "recordings": self = .recordings(room)
        case 2 where rest[0] == "sessions":
            guard let id = ParticipantID(rest[1]) else { return nil }
            self = .session(room, id)
        case 2 where rest[0] == "participants":
            guard let id = ParticipantID(rest[1]) else { return nil }
            self = .participant(room, id)
        case 2 where rest[0] == "prompts":
            guard let id = PromptID(rest[1]) else { return nil }
            self = .prompt(room, id)
        case 2 where rest[0] == "recordings":
            guard let id = RecordingID(rest[1]) else { return nil }
            self = .recording(room, id)
        case 3 where rest[0] == "sessions" && rest[2] == "join":
            guard let id = ParticipantID(rest[1]) else { return nil }
            self = .join(room, id)
        case 3 where rest[0] == "sessions" && rest[2] == "slots":
            guard let id = ParticipantID(rest[1]) else { return nil }
            self = .slots(room, id)
        default: return nil
        }
    }

    /// For `Allow`; OPTIONS is answered everywhere.
    var methods: [String] {
        switch self {
        case .health, .ready, .metrics, .node, .openAPI, .page, .roomEvents, .events, .calls, .call,
            .series:
            ["GET", "HEAD"]
        case .demoSession, .sessions, .join, .ringing, .answer, .end, .media, .pushed, .prompts, .capture, .recordings:
            ["POST"]
        case .rooms: ["GET", "HEAD", "POST"]
        case .room: ["GET", "HEAD", "DELETE"]
        case .session: ["PATCH", "DELETE"]
        case .participant: ["PATCH", "DELETE"]
        case .drain: ["POST", "DELETE"]
        case .slots: ["PUT"]
        case .userSessions, .prompt, .recording: ["DELETE"]
        }
    }

    var access: Access {
        switch self {
        case .health, .ready, .openAPI, .page, .demoSession: .open
        case .metrics, .node, .drain, .rooms, .participant, .events, .pushed, .userSessions, .calls, .prompts, .prompt,
            .series, .capture:
            .server
        case .sessions, .session, .join, .ringing, .answer: .participant
        case .room, .roomEvents, .end, .media, .slots, .call, .recordings, .recording: .either
        }
    }
}
