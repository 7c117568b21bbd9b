import Foundation
import RTPCore
import Testing

/// Times as the journal has them: what is damaged is refused before anything is reckoned with it.
@Suite("Stored times") struct StoredTimeTests {
    private func decoded<Time: Codable>(_ type: Time.Type, _ nanoseconds: String) -> Time? {
        try? JSONDecoder().decode(type, from: Data("{\"nanoseconds\":\(nanoseconds)}".utf8))
    }

    @Test("instants and intervals come back as they were")
    func roundTrip() throws {
        let beforeTheBoot = Instant(nanoseconds: 0) - .seconds(30 * 24 * 3_600)
        for instant in [Instant(nanoseconds: 0), Instant(nanoseconds: 1), beforeTheBoot, .distantFuture] {
            #expect(try JSONDecoder().decode(Instant.self, from: JSONEncoder().encode(instant)) == instant)
        }
        for interval in [Interval.zero, .seconds(-5), .seconds(30 * 24 * 3_600)] {
            #expect(try JSONDecoder().decode(Interval.self, from: JSONEncoder().encode(interval)) == interval)
        }
    }

    @Test(
        "an instant that no clock has had or will have is none",
        arguments: ["-1152921504606846977", "4611686018427387904"])
    func instants(_ nanoseconds: String) { #expect(decoded(Instant.self, nanoseconds) == nil) }

    @Test("an interval that no life has is none", arguments: ["9223372036854775807", "-9223372036854775808"])
    func intervals(_ nanoseconds: String) { #expect(decoded(Interval.self, nanoseconds) == nil) }

    @Test("the longest stored interval may be added to the latest instant")
    func sum() throws {
        let longest = try #require(decoded(Interval.self, String(Int64.max / 8)))
        #expect(decoded(Interval.self, String(Int64.max / 8 + 1)) == nil)
        #expect((Instant.distantFuture + longest + longest).nanoseconds > 0)
    }
}
