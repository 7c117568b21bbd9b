import RelayCore

// Events, rooms and problems as the API's JSON. Field names are the contract (docs/openapi.yaml).

package enum ViewJSON {
    static func event(_ event: RelayEvent) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("seq", .integer(Int64(event.seq))), .init("roomSeq", .integer(Int64(event.roomSeq))),
            .init("id", .string("evt_\(event.seq)")), .init("type", .string(event.type.rawValue)),
            .init("time", time(event.timeMs)),
        ]
        if let room = event.roomID { fields.append(.init("roomId", .string(room.text))) }
        if let uid = event.uid { fields.append(.init("uid", .string(uid))) }
        if let device = event.device { fields.append(.init("device", .string(device))) }
        if let id = event.participantID { fields.append(.init("participantId", .string(id.text))) }
        if let reason = event.reason { fields.append(.init("reason", .string(reason))) }
        fields.append(.init("data", .object(event.data)))
        return .object(fields)
    }

    static func room(_ room: RoomView, withParticipants: Bool) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("id", .string(room.id.text)), .init("kind", .string(room.specification.kind.rawValue)),
            .init("media", .string(room.callMedia.media.rawValue)),
            .init("videoCodec", .string(name(of: room.specification.videoCodec))),
            .init("status", .string(room.status.rawValue)),
            .init("maxParticipants", .integer(Int64(room.specification.maxParticipants))),
            .init("allowParallel", .bool(room.specification.allowParallel)),
            .init("red", .bool(room.specification.red)),
            .init("createdAt", time(room.createdAtMs)),
        ]
        if let tone = room.specification.warningTone { fields.append(.init("warningTone", .string(tone))) }
        if let ring = room.ring { fields.append(.init("ring", self.ring(ring))) }
        if let wish = room.callMedia.request, room.status != .ended {
            fields.append(
                .init(
                    "videoRequest",
                    .object([.init("uid", .string(wish.uid)), .init("device", .string(wish.device))])))
        }
        if let outcome = room.outcome { fields.append(.init("outcome", .string(outcome.rawValue))) }
        if let reason = room.reason { fields.append(.init("reason", .string(reason))) }
        if let started = room.startedAtMs { fields.append(.init("startedAt", time(started))) }
        if let ended = room.endedAtMs { fields.append(.init("endedAt", time(ended))) }
        if let metadata = room.specification.metadata, let value = try? JSONReader.read(Array(metadata.utf8)) {
            // It was read when the room was made; a text that no longer reads is left out.
            fields.append(.init("metadata", value))
        }
        if withParticipants {
            fields.append(.init("participants", .array(room.participants.map(participant))))
            if !room.prompts.isEmpty { fields.append(.init("prompts", .array(room.prompts.map(prompt)))) }
            if let recording = room.recording { fields.append(.init("recording", self.recording(recording))) }
            if let speaker = room.speaker { fields.append(.init("speaker", .string(speaker.text))) }
            fields.append(.init("seq", .integer(Int64(room.seq))))
        }
        return .object(fields)
    }

    private static func ring(_ ring: RingView) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("caller", .string(ring.caller)), .init("callees", .array(ring.callees.map(callee))),
        ]
        if let claimer = ring.claimer {
            fields.append(
                .init(
                    "claimedBy",
                    .object([.init("uid", .string(claimer.uid)), .init("device", .string(claimer.device))])))
        }
        if let end = ring.windowEndsAtMs { fields.append(.init("windowEndsAt", time(end))) }
        return .object(fields)
    }

    private static func callee(_ callee: CalleeView) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("uid", .string(callee.uid)), .init("state", .string(callee.state.rawValue)),
            .init("reached", .bool(callee.isReached)),
        ]
        if let outcome = callee.outcome { fields.append(.init("outcome", .string(outcome.rawValue))) }
        if let device = callee.device { fields.append(.init("device", .string(device))) }
        return .object(fields)
    }

    static func drain(_ drain: DrainView) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("draining", .bool(drain.record != nil)), .init("rooms", .integer(Int64(drain.rooms))),
        ]
        if let record = drain.record { fields += self.fields(of: record) }
        return .object(fields)
    }

    static func fields(of drain: DrainRecord) -> [JSONValue.Field] {
        var fields: [JSONValue.Field] = [
            .init("startedAt", time(drain.startedAtMs)), .init("deadline", time(drain.deadlineMs)),
        ]
        if let drained = drain.drainedAtMs {
            fields.append(.init("drainedAt", time(drained)))
            fields.append(.init("ended", .integer(Int64(drain.endedRooms))))
        }
        return fields
    }

    static func prompt(_ prompt: PromptView) -> JSONValue {
        .object(
            PromptView.fields(of: prompt.specification, prompt.id) + [
                .init("startedAt", time(prompt.startedAtMs)),
                .init("listeners", .array(prompt.listeners.map { .string($0.text) })),
            ])
    }

    static func recording(_ recording: RecordingView) -> JSONValue {
        .object(
            RecordingView.fields(recording.id, recording.specification, folder: recording.folder) + [
                .init("startedAt", time(recording.startedAtMs)), .init("ending", .bool(recording.isEnding)),
            ])
    }

    static func participant(_ participant: ParticipantView) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("id", .string(participant.id.text)), .init("uid", .string(participant.uid)),
            .init("device", .string(participant.device)), .init("state", .string(participant.state.rawValue)),
            .init("interrupted", .bool(participant.isInterrupted)),
            .init("sends", .array(participant.sends.map { .string(name(of: $0)) })),
            .init("receives", .array(participant.receives.map { .string(name(of: $0)) })),
            .init("audio", .string(participant.media.state(of: .audio).rawValue)),
            .init("video", .string(video(of: participant))), .init("held", .bool(participant.media.isHeld)),
            .init("mutedByServer", .array(participant.media.mutedByServer.map { .string($0.name) })),
            .init("createdAt", time(participant.createdAtMs)),
        ]
        if !participant.slots.isEmpty { fields.append(.init("slots", .array(participant.slots.map(\.json)))) }
        if let grants = participant.media.grants { fields.append(.init("grants", grants.json)) }
        if let prepared = participant.preparedAtMs { fields.append(.init("preparedAt", time(prepared))) }
        if let joined = participant.joinedAtMs { fields.append(.init("joinedAt", time(joined))) }
        if let reason = participant.leaveReason { fields.append(.init("reason", .string(reason.rawValue))) }
        if let quality = participant.quality {
            fields.append(.init("quality", .string(quality.grade.rawValue)))
            fields.append(.init("leg", .string(quality.leg.rawValue)))
        }
        fields.append(.init("statistics", statistics(participant.statistics)))
        return .object(fields)
    }

    private static func video(of participant: ParticipantView) -> String {
        participant.videoUnsupported ? "unsupported" : participant.media.state(of: .video).rawValue
    }

    private static func statistics(_ statistics: TransportStatistics) -> JSONValue {
        .object([
            .init("packetsReceived", .integer(Int64(clamping: statistics.packetsReceived))),
            .init("bytesReceived", .integer(Int64(clamping: statistics.bytesReceived))),
            .init("packetsLost", .integer(Int64(clamping: statistics.packetsLost))),
            .init("packetsSent", .integer(Int64(clamping: statistics.packetsSent))),
            .init("bytesSent", .integer(Int64(clamping: statistics.bytesSent))),
            .init("roundTripMs", .number(Double(statistics.roundTripMicroseconds) / 1_000)),
            .init("remoteLossPercent", .number(Double(statistics.remoteFractionLost) * 100 / 256)),
        ])
    }

    static func time(_ ms: Int64) -> JSONValue { .string(Timestamp.text(ofMs: ms)) }

    static func name(of codec: MediaCodec) -> String {
        switch codec {
        case .opus: "opus"
        case .vp8: "VP8"
        case .h264: "H264"
        case .vp9: "VP9"
        case .av1: "AV1"
        }
    }

    static func name(of kind: MediaKind) -> String { kind == .audio ? "audio" : "video" }

    /// RFC 9457. `type` is about:blank: `code` is what programs read.
    static func problem(_ problem: Problem) -> JSONValue {
        .object(
            [
                .init("type", .string("about:blank")), .init("title", .string(title(problem.status))),
                .init("status", .integer(Int64(problem.status))), .init("detail", .string(problem.detail)),
                .init("code", .string(problem.code)),
            ] + LegacyCode.members(of: problem.code) + problem.members)
    }

    private static func title(_ status: Int) -> String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 409: "Conflict"
        case 410: "Gone"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 422: "Unprocessable Content"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        default: status < 500 ? "Request Refused" : "Internal Server Error"
        }
    }
}
