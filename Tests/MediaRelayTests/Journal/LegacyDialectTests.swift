import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Legacy dialect") struct LegacyDialectTests {
    private func stored(_ type: RelayEventType, timeMs: Int64, data: [JSONValue.Field]) -> JournalEvent {
        let event = RelayEvent(
            seq: 7, roomSeq: 3, type: type, timeMs: timeMs, roomID: RoomID("room-1"), uid: "alice", device: nil,
            participantID: nil, reason: nil, data: data)
        return JournalEvent(
            seq: 7, room: "room-1", timeMs: timeMs, type: type.rawValue, json: JSONText.of(ViewJSON.event(event)))
    }

    private func call(claimed: Bool) -> JSONValue.Field {
        var fields: [JSONValue.Field] = [
            .init("callerUid", .string("alice")), .init("receiverUid", .string("bob")),
            .init("receiverType", .string("user")), .init("callType", .string("video")),
            .init("initiatedAtMs", .integer(1_000_500)),
        ]
        if claimed { fields.append(.init("answeredAtMs", .integer(1_010_700))) }
        return .init("call", .object(fields))
    }

    private func ended(_ outcome: RoomOutcome, claimed: Bool, durationMs: Int64 = 90_000) -> JournalEvent {
        stored(
            .callEnded, timeMs: 1_100_999,
            data: [
                .init("outcome", .string(outcome.rawValue)), .init("durationMs", .integer(durationMs)),
                call(claimed: claimed),
            ])
    }

    private func read(_ event: JournalEvent?) throws -> JSONValue { try JSONReader.read(try #require(event).json) }

    @Test("a call that begins is an incoming call, under the same numbers") func initiated() throws {
        let told = LegacyDialect.projected(
            stored(
                .callInitiated, timeMs: 1_000_500,
                data: [
                    .init("callerUid", .string("alice")), .init("callerName", .string("Alice")),
                    .init("receiverUid", .string("bob")), .init("receiverType", .string("user")),
                    .init("callType", .string("audio")), .init("initiatedAtMs", .integer(1_000_500)),
                ]))
        #expect(told?.seq == 7 && told?.type == "onIncomingCallReceived" && told?.id == "evt_7")
        let value = try read(told)
        #expect(value["seq"] == .integer(7) && value["id"] == .string("evt_7"))
        let data = try #require(value["data"])
        #expect(data["sessionId"] == .string("room-1") && data["callStatus"] == .string("initiated"))
        #expect(data["callType"] == .string("audio") && data["receiverType"] == .string("user"))
        #expect(data["callInitiator"] == .string("alice") && data["callReceiver"] == .string("bob"))
        #expect(data["initiatedAt"] == .integer(1_000) && data["joinedAt"] == .null && data["endedAt"] == .null)
        #expect(data["totalDurationInMinutes"] == .integer(0) || data["totalDurationInMinutes"] == .number(0))
        #expect(data["callerName"] == .string("Alice"))
    }

    @Test("an answer is an accepted call, with the time of the answer in seconds") func answered() throws {
        let told = LegacyDialect.projected(stored(.callAnswered, timeMs: 1_010_700, data: [call(claimed: true)]))
        #expect(told?.type == "onOutgoingCallAccepted")
        let data = try #require(try read(told)["data"])
        #expect(data["callStatus"] == .string("ongoing") && data["joinedAt"] == .integer(1_010))
    }

    @Test(
        "every outcome has its callback and status, before and after the claim",
        arguments: [
            (RoomOutcome.rejected, "onOutgoingCallRejected", "rejected", "rejected"),
            (.busy, "onOutgoingCallRejected", "busy", "busy"),
            (.cancelled, "onIncomingCallCancelled", "cancelled", "cancelled"),
            (.ended, "onCallEndedMessageReceived", "ended", "ended"),
            (.unanswered, "onCallEndedMessageReceived", "unanswered", "unanswered"),
            (.unreachable, "onCallEndedMessageReceived", "unanswered", "ended"),
            (.failed, "onCallEndedMessageReceived", "unanswered", "ended"),
            (.lost, "onCallEndedMessageReceived", "unanswered", "ended"),
            (.expired, "onCallEndedMessageReceived", "unanswered", "ended"),
            (.drained, "onCallEndedMessageReceived", "unanswered", "ended"),
            (.nodeLost, "onCallEndedMessageReceived", "unanswered", "ended"),
        ]) func outcomes(_ outcome: RoomOutcome, _ callback: String, _ before: String, _ after: String) throws
    {
        for (isClaimed, status) in [(false, before), (true, after)] {
            let told = LegacyDialect.projected(ended(outcome, claimed: isClaimed))
            #expect(told?.type == callback)
            let data = try #require(try read(told)["data"])
            #expect(data["callStatus"] == .string(status))
            #expect(data["endedAt"] == .integer(1_100))
            #expect(data["joinedAt"] == (isClaimed ? .integer(1_010) : .null))
            #expect(data["totalDurationInMinutes"] == .number(1.5))
        }
    }

    @Test("every outcome is in the table") func complete() {
        for outcome in RoomOutcome.allCases { #expect(LegacyDialect.projected(ended(outcome, claimed: false)) != nil) }
    }

    @Test("what is not about a whole call is not told, and a truncated log is told as it is") func others() {
        for type in RelayEventType.allCases
        where ![.callInitiated, .callAnswered, .callEnded, .eventsTruncated].contains(type) {
            #expect(LegacyDialect.projected(stored(type, timeMs: 1, data: [call(claimed: true)])) == nil, "\(type)")
        }
        let notice = stored(.eventsTruncated, timeMs: 1, data: [])
        #expect(LegacyDialect.projected(notice) == notice)
    }

    @Test("a stored event that does not read is left out") func broken() {
        var event = ended(.busy, claimed: false)
        event.json.removeLast()
        #expect(LegacyDialect.projected(event) == nil)
    }

    @Test("every error code of CALLS.md has its old spelling beside it") func codes() throws {
        let codes = [
            "call-not-found", "session-already-active", "already-joined", "busy", "cancelled", "rejected", "unanswered",
            "ended", "invalid-session-id", "not-authenticated", "forbidden", "calling-self", "glare",
            "answered-elsewhere", "expired", "room-full", "draining", "overloaded",
        ]
        #expect(Set(codes) == Set(LegacyCode.table.keys))
        let document = ViewJSON.problem(Problem(status: 400, code: "calling-self", detail: "x"))
        #expect(document["legacyCode"] == .string("ERR_CALLING_SELF"))
        #expect(document["code"] == .string("calling-self"))
        #expect(ViewJSON.problem(Problem(status: 400, code: "malformed-json", detail: "x"))["legacyCode"] == nil)
    }
}
