import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

/// Every shape that a record may have.
private struct Sample: Codable, Equatable {
    enum Word: String, Codable { case first, second }
    enum Choice: Codable, Equatable {
        case none
        case one(Int)
        case named(first: String, second: [Bool])
    }
    struct Empty: Codable, Equatable {}

    var text = ""
    var flag = true
    var small: UInt8 = 255
    var large = UInt64.max
    var negative = Int64.min
    var fraction = 0.1
    var absent: String?
    var present: String? = "here"
    var word = Word.second
    var choices: [Choice] = [.none, .one(-3), .named(first: "a", second: [true, false])]
    var lists: [[UInt8]] = [[], [1], [1, 2]]
    var named: [String: Int] = ["b": 2, "a": 1]
    var gaps: [Int?] = [1, nil, 3]
    var empty = Empty()
    var interval = Interval.seconds(3)
}

@Suite("Journal: writing records") struct RecordEncoderTests {
    private func decoded(_ bytes: [UInt8]) throws -> Sample {
        try JSONDecoder().decode(Sample.self, from: Data(bytes))
    }

    @Test("every shape comes back as it was") func shapes() throws {
        #expect(try decoded(RecordEncoder.encode(Sample())) == Sample())
    }

    @Test(
        "texts come back as they were",
        arguments: ["\"quoted\" and \\ and /", "line\nfeed\r\t\u{0}\u{1F}\u{7F}", "Zoë 👩‍👩‍👧 \u{2028}", "", "é"])
    func texts(_ text: String) throws {
        var sample = Sample()
        sample.text = text
        #expect(try decoded(RecordEncoder.encode(sample)).text == text)
    }

    @Test("what is written is what Foundation writes, keys in another order") func asFoundation() throws {
        let own = try JSONSerialization.jsonObject(with: Data(RecordEncoder.encode(Sample()))) as? NSDictionary
        let other = try JSONSerialization.jsonObject(with: JSONEncoder().encode(Sample())) as? NSDictionary
        #expect(own == other)
    }

    @Test("a list stands alone as well") func list() throws {
        #expect(String(decoding: try RecordEncoder.encode([1, 2, 3]), as: UTF8.self) == "[1,2,3]")
        #expect(String(decoding: try RecordEncoder.encode([[String]]()), as: UTF8.self) == "[]")
    }

    @Test("a number that JSON does not have is refused") func notANumber() {
        #expect(throws: EncodingError.self) { try RecordEncoder.encode([Double.nan]) }
    }
}
