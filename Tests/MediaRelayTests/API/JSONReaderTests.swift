import RelayCore
import Testing

@testable import MediaRelay

@Suite("JSON text") struct JSONReaderTests {
    private func read(_ text: String) -> JSONValue? { try? JSONReader.read(Array(text.utf8)) }
    private func refusal(_ text: String) -> String? {
        do throws(JSONRefusal) {
            _ = try JSONReader.read(Array(text.utf8))
            return nil
        } catch {
            return error.detail
        }
    }

    @Test("an object keeps the order of its fields") func order() {
        #expect(read(#"{"b":1,"a":true}"#) == .object([.init("b", .integer(1)), .init("a", .bool(true))]))
    }

    @Test("white space between tokens is of no consequence") func space() {
        #expect(read(" { \"a\" :\t[ 1 ,\n2 ] } \r\n") == .object([.init("a", .array([.integer(1), .integer(2)]))]))
    }

    @Test("a field that stands twice is refused by name") func duplicates() {
        #expect(refusal(#"{"room":"a","room":"b"}"#)?.contains("\"room\" stands twice") == true)
    }

    @Test("an escaped spelling of the same name is a duplicate too") func escapedDuplicates() {
        #expect(refusal(#"{"a":1,"\u0061":2}"#)?.contains("stands twice") == true)
    }

    @Test(
        "what Foundation would let pass is refused",
        arguments: [
            "[1,]", "{\"a\":1,}", "\u{FEFF}{}", "[1] x", "'a'", "NaN", "[01]", "[+1]", "[1.]", "[.5]", "[1e]", "",
        ])
    func lax(_ text: String) { #expect(read(text) == nil) }

    @Test("bytes that are no UTF-8 are refused also in strings") func utf8() {
        #expect((try? JSONReader.read([0x22, 0xFF, 0x22])) == nil)
    }

    @Test("32 levels are read and 33 are refused") func depth() {
        let deep = String(repeating: "[", count: 31) + "1" + String(repeating: "]", count: 31)
        #expect(read(deep) != nil)
        let tooDeep = String(repeating: "[", count: 32) + "1" + String(repeating: "]", count: 32)
        #expect(refusal(tooDeep) == "more than 32 levels")
    }

    @Test("three thousand levels do not exhaust the stack") func veryDeep() {
        #expect(refusal(String(repeating: "[", count: 3_000)) == "more than 32 levels")
    }

    @Test("a number beyond 64 bits or a Double's range does not trap") func numbers() {
        #expect(read("9223372036854775807") == .integer(.max))
        #expect(read("9223372036854775808") == .number(9_223_372_036_854_775_808))
        #expect(refusal("1e400") == "a number out of range")
        #expect(refusal("1" + String(repeating: "0", count: 70)) == "a number of more than 64 characters")
    }

    @Test("escapes and surrogate pairs are read, halves of pairs are refused") func escapes() {
        #expect(read(#""\u00e9\n\ud83d\ude00\/""#) == .string("é\n😀/"))
        #expect(refusal(#""\ud83d""#) == "half a surrogate pair")
        #expect(refusal(#""\ude00""#) == "half a surrogate pair")
        #expect(refusal(#""\x41""#) != nil)
    }

    @Test("a control character in a string is refused") func control() {
        #expect(refusal("\"a\u{1}\"") == "a control character in a string")
    }

    @Test("every prefix of a text is refused without a trap") func prefixes() {
        let text = Array(#"{"a":[1,2.5e-3,"\u0041x",{"b":null,"c":false}],"d":-0}"#.utf8)
        for count in 0..<text.count { #expect((try? JSONReader.read(Array(text[..<count]))) == nil) }
        #expect((try? JSONReader.read(text)) != nil)
    }

    @Test("what is written is read back") func roundTrip() {
        let value = JSONValue.object([
            .init("text", .string("a\"\\\n\u{2028}\u{7F}é😀")), .init("n", .integer(-5)), .init("x", .number(0.25)),
            .init("list", .array([.null, .bool(false)])),
        ])
        #expect((try? JSONReader.read(JSONText.of(value))) == value)
    }

    @Test("written text holds no control character and no line separator") func writtenText() {
        let bytes = JSONText.of(.string("\u{0}\r\n\u{1B}[31m\u{85}\u{2028}\u{2029}"))
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(!text.unicodeScalars.contains { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) })
        #expect(!text.unicodeScalars.contains("\u{2028}") && !text.unicodeScalars.contains("\u{2029}"))
    }

    @Test("a number that JSON does not have is written as null") func infinities() {
        #expect(JSONText.of(.array([.number(.infinity), .number(.nan)])) == Array("[null,null]".utf8))
    }
}
