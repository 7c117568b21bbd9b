import RelayCore

/// The earlier ringing dialect (CALLS.md, "The old names") as a pure function of one stored event: its type becomes
/// the name of the callback that the old products know, its `data` the old fields. Only calls are told: rooms without
/// ring, participants and single callees of a group (whose decline once ended the whole call) are not part of it.
enum LegacyDialect {
    static func projected(_ event: JournalEvent) -> JournalEvent? {
        switch RelayEventType(rawValue: event.type) {
        case .eventsTruncated: return event
        case .callInitiated, .callAnswered, .callEnded: break
        default: return nil
        }
        // Our own text: one that does not read is left out rather than told wrongly.
        guard let stored = try? JSONReader.read(event.json), let data = stored["data"],
            let words = words(event.type, data)
        else { return nil }
        var fields: [JSONValue.Field] = []
        for name in ["seq", "roomSeq", "id"] {
            if let value = stored[name] { fields.append(.init(name, value)) }
        }
        fields.append(.init("type", .string(words.callback)))
        for name in ["time", "roomId", "uid", "device"] {
            if let value = stored[name] { fields.append(.init(name, value)) }
        }
        fields.append(.init("data", call(event, stored, data, status: words.status)))
        return JournalEvent(
            seq: event.seq, room: event.room, timeMs: event.timeMs, type: words.callback,
            json: JSONText.of(.object(fields)))
    }

    /// The callback and the `callStatus` of an event.
    private static func words(_ type: String, _ data: JSONValue) -> (callback: String, status: String)? {
        switch RelayEventType(rawValue: type) {
        case .callInitiated: return ("onIncomingCallReceived", "initiated")
        case .callAnswered: return ("onOutgoingCallAccepted", "ongoing")
        case .callEnded:
            guard case .string(let word)? = data["outcome"], let outcome = RoomOutcome(rawValue: word) else {
                return nil
            }
            return ended(outcome, isClaimed: data["call"]?["answeredAtMs"] != nil)
        default: return nil
        }
    }

    static func ended(_ outcome: RoomOutcome, isClaimed: Bool) -> (callback: String, status: String) {
        switch outcome {
        case .rejected: ("onOutgoingCallRejected", "rejected")
        case .busy: ("onOutgoingCallRejected", "busy")
        case .cancelled: ("onIncomingCallCancelled", "cancelled")
        case .ended: ("onCallEndedMessageReceived", "ended")
        case .unanswered: ("onCallEndedMessageReceived", "unanswered")
        case .unreachable, .failed, .lost, .expired, .drained, .nodeLost:
            ("onCallEndedMessageReceived", isClaimed ? "ended" : "unanswered")
        }
    }

    private static func call(
        _ event: JournalEvent, _ stored: JSONValue, _ data: JSONValue, status: String
    ) -> JSONValue {
        // `call.initiated` says it itself, the later ones repeat it.
        let call = data["call"] ?? data
        func value(_ name: String) -> JSONValue { call[name] ?? .null }
        func seconds(_ value: JSONValue?) -> JSONValue {
            guard case .integer(let ms)? = value else { return .null }
            return .integer(ms / 1_000)
        }
        let isEnd = event.type == RelayEventType.callEnded.rawValue
        var fields: [JSONValue.Field] = [
            .init("sessionId", stored["roomId"] ?? .null), .init("callStatus", .string(status)),
            .init("callType", value("callType")), .init("callInitiator", value("callerUid")),
            .init("callReceiver", value("receiverUid")), .init("receiverType", value("receiverType")),
            .init("initiatedAt", seconds(call["initiatedAtMs"])),
            .init("joinedAt", seconds(call["joinedAtMs"] ?? call["answeredAtMs"])),
            .init("endedAt", isEnd ? .integer(event.timeMs / 1_000) : .null),
        ]
        var minutes = 0.0
        if isEnd, case .integer(let ms)? = data["durationMs"] { minutes = Double(ms) / 60_000 }
        fields.append(.init("totalDurationInMinutes", .number(minutes)))
        if event.type == RelayEventType.callInitiated.rawValue {
            // What a push needs goes along under the names that it has anyway.
            for name in ["callerName", "callerAvatarUrl", "conversationId", "ringTimeoutMs"] {
                if let value = data[name] { fields.append(.init(name, value)) }
            }
        }
        return .object(fields)
    }
}

/// The old spellings of the error codes, in one table.
enum LegacyCode {
    /// What a problem document carries beside its code.
    static func members(of code: String) -> [JSONValue.Field] {
        guard let old = table[code] else { return [] }
        return [.init("legacyCode", .string(old))]
    }

    static let table: [String: String] = [
        "already-joined": "ERR_ALREADY_JOINED",
        "answered-elsewhere": "ERR_CALL_ANSWERED_ELSEWHERE",
        "busy": "ERR_CALL_BUSY",
        "call-not-found": "ERR_CALL_NOT_FOUND",
        "calling-self": "ERR_CALLING_SELF",
        "cancelled": "ERR_CALL_CANCELLED",
        "draining": "ERR_SERVER_DRAINING",
        "ended": "ERR_CALL_ENDED",
        "expired": "ERR_CALL_EXPIRED",
        "forbidden": "ERR_FORBIDDEN",
        "glare": "ERROR_CALL_IN_PROGRESS",
        "invalid-session-id": "ERR_INVALID_SESSION_ID",
        "not-authenticated": "ERR_NOT_AUTHENTICATED",
        "overloaded": "ERR_SERVER_OVERLOADED",
        "rejected": "ERR_CALL_REJECTED",
        "room-full": "ERR_CALL_FULL",
        "session-already-active": "ERROR_CALL_IN_PROGRESS",
        "unanswered": "ERR_CALL_UNANSWERED",
    ]
}
