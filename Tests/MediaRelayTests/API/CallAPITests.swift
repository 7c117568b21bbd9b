import Foundation
import RTPCore
import RelayCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Call records: the API's form") struct CallAPITests {
    private func query(_ text: String) throws -> CallQuery {
        try CallParameters.query(
            try Query(HTTPRequest(id: HTTPRequestID(rawValue: 1), method: "GET", target: "/v1/calls?" + text)))
    }

    private func refusal(_ text: String) -> Problem? {
        do {
            _ = try query(text)
            return nil
        } catch {
            return error as? Problem
        }
    }

    @Test("every parameter is read") func parameters() throws {
        let query = try query(
            "uid=ben&from=2026-01-31T08:00:00Z&to=2026-01-31T09:00:00.250%2B01:00&outcome=busy&cursor=17.4&limit=5")
        #expect(query.uid == "ben" && query.outcome == "busy" && !query.isMissed && query.limit == 5)
        #expect(query.fromMs == 1_769_846_400_000 && query.toMs == 1_769_846_400_250)
        #expect(query.after == CallQuery.Cursor(endedMs: 17, number: 4))
        #expect(try self.query("uid=ben&outcome=missed").isMissed)
        #expect(try self.query("").limit == 100)
    }

    @Test(
        "what is no value of a parameter is refused by name",
        arguments: [
            ("from=yesterday", "from"), ("to=1769846400000", "to"), ("outcome=great", "outcome"),
            ("outcome=missed", "uid"), ("cursor=9", "cursor"), ("limit=501", "limit"), ("limit=0", "limit"),
            ("uid=a%20b", "uid"),
        ])
    func refused(_ text: String, _ name: String) {
        let problem = refusal(text)
        #expect(problem?.status == 400 && problem?.detail.contains(name) == true)
    }

    @Test(
        "times of RFC 3339 are read to the millisecond",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.001Z", 1), ("2000-02-29T12:34:56.7Z", 951_827_696_700),
            ("2024-12-31T23:59:59.999999Z", 1_735_689_599_999), ("2026-03-01T00:30:00+01:00", 1_772_321_400_000),
            ("2026-02-28T18:30:00-05:00", 1_772_321_400_000), ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] as [(String, Int64)])
    func times(_ text: String, _ ms: Int64) {
        #expect(Timestamp.ms(of: text) == ms)
        if text.hasSuffix("Z"), text.count == 24 { #expect(Timestamp.text(ofMs: ms) == text) }
    }

    @Test(
        "what is no time is none",
        arguments: [
            "", "2026-02-29T00:00:00Z", "1900-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Zx",
            "2026-04-31T00:00:00Z", "2026-01-01T00:00:00+1:00",
        ])
    func noTimes(_ text: String) { #expect(Timestamp.ms(of: text) == nil) }

    @Test("a call's record says in JSON who, when, how it ended and what each leg measured") func record() throws {
        let text = String(decoding: JSONText.of(CallJSON.record(try endedCall())), as: UTF8.self)
        for part in [
            #""schema":1,"roomId":"r1","kind":"peer","media":"video","outcome":"rejected","reason":"rejected""#,
            #""endedBy":{"kind":"participant","uid":"ben","device":"phone"},"createdAt":"2026-01-01T00:00:00.000Z""#,
            #""endedAt":"2026-01-01T00:00:02.000Z","durationMs":0,"complete":true"#,
            #""ring":{"caller":"alice","windowMs":45000,"callees":[{"uid":"ben","reached":true,"outcome":"rejected","#,
            #""pushes":[]}]},"participants":[]"#,
        ] { #expect(text.contains(part), "\(part) in \(text)") }
    }

    @Test("what a record is stored under names every user and who missed it") func stored() throws {
        let stored = JournalCall(try endedCall())
        #expect(stored.room == "r1" && stored.outcome == "rejected" && stored.endedMs == 1_767_225_602_000)
        #expect(stored.users.map(\.uid) == ["alice", "ben"] && stored.users.allSatisfy { !$0.isMissed })
        #expect(
            String(decoding: stored.users[1].view, as: UTF8.self)
                == #"{"role":"callee","direction":"incoming","status":"rejected"}"#)
    }

    @Test("the paths are found, the list for the server, one record for its participant too") func routes() throws {
        func route(_ target: String) -> Route? {
            Route(HTTPRequest(id: HTTPRequestID(rawValue: 1), method: "GET", target: target))
        }
        #expect(route("/v1/calls?uid=ben") == .calls && route("/v1/calls")?.access == .server)
        #expect(route("/v1/calls/r1") == .call(try #require(RoomID("r1"))))
        #expect(route("/v1/calls/r1")?.access == .either && route("/v1/calls/r1/x") == nil)
        #expect(route("/v1/calls")?.methods == ["GET", "HEAD"])
    }

    @Test("statistics in records of before have none of the new fields and are read") func oldStatistics() throws {
        let old = """
            {"packetsReceived":5,"bytesReceived":6,"packetsLost":1,"packetsSent":7,"bytesSent":8,
            "roundTripMicroseconds":9,"remoteFractionLost":3}
            """
        let statistics = try JSONDecoder().decode(TransportStatistics.self, from: Data(old.utf8))
        #expect(statistics.packetsReceived == 5 && statistics.bytesSent == 8 && statistics.remoteFractionLost == 3)
        #expect(statistics.roundTripCount == 0 && statistics.largestAudioGapMs == 0)
        #expect(
            try JSONDecoder().decode(TransportStatistics.self, from: JSONEncoder().encode(statistics)) == statistics)
    }

    /// Alice calls ben, who declines after 2 s.
    private func endedCall() throws -> CallRecord {
        let conductor = Conductor(
            configuration: ConductorConfiguration(), random: .seeded(1), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil })
        let room = try #require(RoomID("r1"))
        var specification = RoomSpecification(id: room, kind: .peer, media: .video)
        specification.ring = RingSpecification(caller: "alice", callees: ["ben"])
        _ = conductor.decide(
            .request(RequestID(1), .server(keyID: "k"), .createRoom(specification)),
            now: Instant(nanoseconds: 0), wallClockMs: 1_767_225_600_000)
        let ben = ParticipantIdentity(uid: "ben", device: "phone", room: room, grants: .standard)
        let turn = conductor.decide(
            .request(RequestID(2), .participant(ben), .end(room, .rejected, uid: nil, scope: .user)),
            now: Instant(nanoseconds: 2_000_000_000), wallClockMs: 1_767_225_602_000)
        return try #require(turn.calls.first)
    }
}
