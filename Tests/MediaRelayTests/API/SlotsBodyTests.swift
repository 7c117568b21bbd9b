import RelayCore
import Testing

@testable import MediaRelay

@Suite("Bodies of slots") struct SlotsBodyTests {
    private func refusal(_ text: String) -> JSONValue? {
        do throws(Problem) {
            _ = try SlotsBody.requests(Array(text.utf8))
            return nil
        } catch {
            #expect(error.status == 400)
            return error.members.first { $0.name == "field" }?.value ?? .string(error.code)
        }
    }

    @Test("pins and heights are read, null and absence are the same") func reads() throws {
        let body = #"{"slots":[{"mid":"3","uid":"bob","height":360},{"mid":"4","uid":null,"height":null},{"mid":"5"}]}"#
        #expect(
            try SlotsBody.requests(Array(body.utf8)) == [
                SlotRequest(mid: "3", uid: "bob", height: 360), SlotRequest(mid: "4"), SlotRequest(mid: "5"),
            ])
        #expect(try SlotsBody.requests(Array(#"{"slots":[]}"#.utf8)) == [])
    }

    @Test(
        "what cannot be a wish is refused by its field",
        arguments: [
            (#"{}"#, "slots"), (#"{"slots":{}}"#, "slots"), (#"{"slots":[1]}"#, "slots[0]"),
            (#"{"slots":[{}]}"#, "slots[0].mid"), (#"{"slots":[{"mid":"12345678901234567"}]}"#, "slots[0].mid"),
            (#"{"slots":[{"mid":"1","uid":"a b"}]}"#, "slots[0].uid"),
            (#"{"slots":[{"mid":"1","height":-1}]}"#, "slots[0].height"),
            (#"{"slots":[{"mid":"1","height":4321}]}"#, "slots[0].height"),
            (#"{"slots":[{"mid":"1","height":"tall"}]}"#, "slots[0].height"),
            (#"{"slots":[{"mid":"1"},{"mid":"1"}]}"#, "slots[1].mid"),
            (#"{"slots":[{"mid":"1","uid":"a"},{"mid":"2","uid":"a"}]}"#, "slots[1].uid"),
            (#"{"slots":[{"mid":"1","width":1}]}"#, "slots[0].width"), (#"{"slot":[]}"#, "slot"),
        ])
    func refuses(_ body: String, _ field: String) { #expect(refusal(body) == .string(field)) }

    @Test("more entries than a session has m-lines are refused") func tooMany() {
        let entries = (0...64).map { #"{"mid":"\#($0)"}"# }.joined(separator: ",")
        #expect(refusal(#"{"slots":[\#(entries)]}"#) == .string("slots"))
    }
}
