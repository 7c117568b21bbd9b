import RTPCore
import RelayTesting
import Testing

@Suite("Serial arithmetic")
struct SequenceNumberTests {
    static let file = VectorFile("sequence")

    @Test(
        "rfc1982: the distance between two numbers is the shorter way round", arguments: file.rows("serial16")
    )
    func distance(_ row: VectorRow) throws {
        let a = try #require(row["a"].integer.flatMap(UInt16.init(exactly:)))
        let b = try #require(row["b"].integer.flatMap(UInt16.init(exactly:)))
        #expect(Int(SequenceNumber.distance(from: a, to: b)) == row["distance"].integer)
    }

    @Test("rfc1982: a number is newer within half the circle only", arguments: file.rows("serial16"))
    func newer(_ row: VectorRow) throws {
        let a = try #require(row["a"].integer.flatMap(UInt16.init(exactly:)))
        let b = try #require(row["b"].integer.flatMap(UInt16.init(exactly:)))
        #expect(SequenceNumber.isNewer(b, than: a) == row["b_is_newer"].bool)
        if row["ambiguous"].bool == true {
            #expect(!SequenceNumber.isNewer(a, than: b))
        }
    }

    @Test("timestamps differ by the shorter way round", arguments: file.rows("timestamp32"))
    func timestamps(_ row: VectorRow) throws {
        let a = try #require(row["a"].integer.flatMap(UInt32.init(exactly:)))
        let b = try #require(row["b"].integer.flatMap(UInt32.init(exactly:)))
        let delta = TimestampArithmetic.distance(from: a, to: b)
        #expect(Int(delta) == row["delta"].integer)
        #expect(TimestampArithmetic.isNewer(b, than: a) == (delta > 0))
    }

    @Test(
        "numbers on the wire are extended across wraps in both directions", arguments: file.rows("unwrap16"))
    func unwrap(_ row: VectorRow) throws {
        let wire = try #require(row["wire"].array)
        var unwrapper = SequenceUnwrapper()
        let extended = wire.map { unwrapper.unwrap(UInt16($0.integer ?? 0)) }
        #expect(extended.map(Int.init) == row["unwrapped"].array?.map { $0.integer })
    }

    @Test("a late packet does not pull the reference of the unwrapper back")
    func lateReference() {
        var unwrapper = SequenceUnwrapper()
        _ = unwrapper.unwrap(40_000)
        #expect(unwrapper.unwrap(10_000) == 10_000)
        #expect(unwrapper.highest == 40_000)
        // Nearer to 40,000 than to 10,000 by way of the wrap.
        #expect(unwrapper.unwrap(6_000) == 65_536 + 6_000)
    }

    @Test("a number is extended to the closest one on either side of a reference")
    func extend() {
        #expect(SequenceNumber.extend(65_535, near: 131_072) == 131_071)
        #expect(SequenceNumber.extend(1, near: 131_071) == 131_073)
        #expect(SequenceNumber.extend(65_535, near: 0) == -1)
    }
}
