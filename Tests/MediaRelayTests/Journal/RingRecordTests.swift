import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Journal: records of a ring") struct RingRecordTests {
    private func record(_ change: (inout RoomSpecification) -> Void) throws -> RoomRecord {
        let conductor = Conductor(
            configuration: ConductorConfiguration(), random: .seeded(1), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil })
        var specification = RoomSpecification(id: RoomID("r1"), kind: .peer, media: .video)
        change(&specification)
        _ = conductor.decide(
            .request(
                RequestID(1), .server(keyID: "k"), .createRoom(specification)),
            now: Instant(nanoseconds: 1), wallClockMs: 1_000)
        let room = try #require(RoomID("r1"))
        return try #require(conductor.record(of: room))
    }

    @Test("a ringing room's record comes back from its JSON as it was") func roundTrip() throws {
        let record = try record {
            $0.ring = RingSpecification(caller: "alice", callees: ["ben"])
            $0.ifBusy = .refuse
            $0.timeouts.joinAfterClaim = .seconds(7)
        }
        let bytes = RecordCoding.encode(record)
        #expect(try JSONDecoder().decode(RoomRecord.self, from: Data(bytes)) == record)
    }

    @Test("a record without a ring has none of a ring's fields, so that records from before it are read")
    func fromBefore() throws {
        let record = try record { _ in }
        let text = String(decoding: RecordCoding.encode(record), as: UTF8.self)
        for field in ["ring", "Busy", "JoinAfterClaim"] { #expect(!text.contains(field), "\(field)") }
        #expect(record.specification.ifBusy == .ring)
        #expect(record.specification.timeouts.joinAfterClaim == .seconds(20))
    }
}
