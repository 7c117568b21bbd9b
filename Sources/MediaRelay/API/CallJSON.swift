import RTPCore
import RelayCore

// Call records as the API's JSON, made once when the record is stored: reading them back is copying. A change of
// these fields' meaning raises `CallRecord.schema`, since stored texts stay as they are.

package enum CallJSON {
    static func record(_ record: CallRecord) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("schema", .integer(Int64(CallRecord.schema))), .init("roomId", .string(record.room.text)),
            .init("kind", .string(record.specification.kind.rawValue)),
            .init("media", .string(record.specification.media.rawValue)),
            .init("outcome", .string(record.outcome.rawValue)),
        ]
        if let reason = record.reason { fields.append(.init("reason", .string(reason))) }
        if let cause = record.cause { fields.append(.init("endedBy", self.cause(cause))) }
        if !record.missing.isEmpty {
            let missing: [JSONValue] = record.missing.map {
                .object([.init("uid", .string($0.uid)), .init("reason", .string($0.reason))])
            }
            fields.append(.init("missing", .array(missing)))
        }
        fields.append(.init("createdAt", ViewJSON.time(record.createdAtMs)))
        append("startedAt", record.startedAtMs, to: &fields)
        append("talkingSince", record.talkingSinceMs, to: &fields)
        append("endedAt", record.endedAtMs, to: &fields)
        fields.append(.init("durationMs", .integer(record.durationMs)))
        fields.append(.init("complete", .bool(record.isComplete)))
        if let ring = record.specification.ring { fields.append(.init("ring", self.ring(ring, record))) }
        fields.append(.init("participants", .array(record.legs.map(leg))))
        if record.omittedLegs > 0 {
            fields.append(.init("omittedParticipants", .integer(Int64(record.omittedLegs))))
        }
        if let metadata = record.specification.metadata, let value = try? JSONReader.read(Array(metadata.utf8)) {
            fields.append(.init("metadata", value))
        }
        return .object(fields)
    }

    static func view(_ view: CallView) -> JSONValue {
        var fields: [JSONValue.Field] = [.init("role", .string(view.role.rawValue))]
        if let direction = view.direction { fields.append(.init("direction", .string(direction.rawValue))) }
        fields.append(.init("status", .string(view.status.rawValue)))
        return .object(fields)
    }

    private static func append(_ name: String, _ ms: Int64?, to fields: inout [JSONValue.Field]) {
        if let ms { fields.append(.init(name, ViewJSON.time(ms))) }
    }

    private static func cause(_ cause: CallCause) -> JSONValue {
        var fields: [JSONValue.Field] = [.init("kind", .string(cause.kind.rawValue))]
        if let uid = cause.uid { fields.append(.init("uid", .string(uid))) }
        if let device = cause.device { fields.append(.init("device", .string(device))) }
        return .object(fields)
    }

    private static func ring(_ ring: RingSpecification, _ record: CallRecord) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("caller", .string(ring.caller)), .init("windowMs", .integer(ring.window.milliseconds)),
        ]
        if let conversation = ring.conversationID {
            fields.append(.init("conversationId", .string(conversation)))
        }
        if let claimer = record.claimer {
            fields.append(
                .init(
                    "claimedBy",
                    .object([.init("uid", .string(claimer.uid)), .init("device", .string(claimer.device))])))
        }
        fields.append(.init("callees", .array(record.callees.map(callee))))
        return .object(fields)
    }

    private static func callee(_ callee: CallRecord.Callee) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("uid", .string(callee.uid)), .init("reached", .bool(callee.isReached)),
        ]
        if let outcome = callee.outcome { fields.append(.init("outcome", .string(outcome.rawValue))) }
        append("ringingAt", callee.ringingAtMs, to: &fields)
        append("answeredAt", callee.answeredAtMs, to: &fields)
        if let device = callee.device { fields.append(.init("device", .string(device))) }
        fields.append(
            .init(
                "pushes",
                .array(
                    callee.pushes.map {
                        .object([.init("device", .string($0.device)), .init("at", ViewJSON.time($0.atMs))])
                    })))
        return .object(fields)
    }

    private static func leg(_ leg: CallLeg) -> JSONValue {
        var fields: [JSONValue.Field] = [
            .init("participantId", .string(leg.participant.text)), .init("uid", .string(leg.uid)),
            .init("device", .string(leg.device)), .init("createdAt", ViewJSON.time(leg.createdAtMs)),
        ]
        append("preparedAt", leg.preparedAtMs, to: &fields)
        append("joinedAt", leg.joinedAtMs, to: &fields)
        append("firstAudioAt", leg.notes.firstAudioAtMs, to: &fields)
        append("firstVideoAt", leg.notes.firstVideoAtMs, to: &fields)
        append("leftAt", leg.leftAtMs, to: &fields)
        fields.append(.init("reason", .string(leg.reason?.rawValue ?? "replaced")))
        if let detail = leg.detail { fields.append(.init("detail", .string(detail))) }
        let statistics = leg.statistics
        fields += [
            .init("interruptions", .integer(Int64(leg.notes.interruptions ?? 0))),
            .init("interruptedMs", .integer(leg.notes.interruptedMs ?? 0)),
            .init("pathChanges", .integer(Int64(statistics.pathChanges))),
            .init("complete", .bool(leg.isFinal)),
            .init("uplink", uplink(statistics)), .init("downlink", downlink(statistics)),
        ]
        if statistics.roundTripCount > 0 { fields.append(.init("roundTripMs", roundTrip(statistics))) }
        if let series = leg.series, !series.rows.isEmpty { fields.append(.init("series", SeriesJSON.of(series))) }
        return .object(fields)
    }

    private static func uplink(_ statistics: TransportStatistics) -> JSONValue {
        .object([
            .init("packets", .integer(Int64(clamping: statistics.packetsReceived))),
            .init("bytes", .integer(Int64(clamping: statistics.bytesReceived))),
            .init("lost", .integer(Int64(clamping: statistics.packetsLost))),
            .init(
                "lossPercent",
                percent(statistics.packetsLost, of: statistics.packetsReceived &+ statistics.packetsLost)),
            .init("jitterMs", milliseconds(statistics.jitterMicroseconds)),
            .init("largestJitterMs", milliseconds(statistics.largestJitterMicroseconds)),
            .init("largestAudioGapMs", .integer(Int64(statistics.largestAudioGapMs))),
            .init("largestVideoGapMs", .integer(Int64(statistics.largestVideoGapMs))),
        ])
    }

    private static func downlink(_ statistics: TransportStatistics) -> JSONValue {
        .object([
            .init("packets", .integer(Int64(clamping: statistics.packetsSent))),
            .init("bytes", .integer(Int64(clamping: statistics.bytesSent))),
            .init("lost", .integer(Int64(clamping: statistics.remotePacketsLost))),
            .init("lossPercent", percent(statistics.remotePacketsLost, of: statistics.remotePacketsExpected)),
            .init("jitterMs", milliseconds(statistics.remoteJitterMicroseconds)),
            .init("largestJitterMs", milliseconds(statistics.largestRemoteJitterMicroseconds)),
        ])
    }

    private static func roundTrip(_ statistics: TransportStatistics) -> JSONValue {
        .object([
            .init("last", milliseconds(statistics.roundTripMicroseconds)),
            .init("smallest", milliseconds(statistics.smallestRoundTripMicroseconds)),
            .init("largest", milliseconds(statistics.largestRoundTripMicroseconds)),
            .init("mean", milliseconds(statistics.meanRoundTripMicroseconds)),
        ])
    }

    private static func milliseconds(_ microseconds: UInt32) -> JSONValue {
        .number(Double(microseconds) / 1_000)
    }

    /// With two decimals.
    private static func percent(_ part: UInt64, of whole: UInt64) -> JSONValue {
        guard whole > 0 else { return .number(0) }
        return .number((10_000 * Double(min(part, whole)) / Double(whole)).rounded() / 100)
    }
}
