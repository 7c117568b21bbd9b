import RTPCore
import RelayTesting
import Testing

/// The last value that each bound takes, and the first that it does not (`make mutate` finds what is missing here).
@Suite("STUN at its bounds") struct STUNBoundTests {
    /// A request, or another type, with attributes whose values are padded.
    private func read(_ attributes: [(type: UInt16, value: [UInt8])], type: UInt16 = 0x0001) -> STUNMessage? {
        var body: [UInt8] = []
        for attribute in attributes {
            body += [attribute.type, UInt16(attribute.value.count)].flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }
            body += attribute.value + [UInt8](repeating: 0, count: (4 - attribute.value.count % 4) % 4)
        }
        let head: [UInt8] = [UInt8(type >> 8), UInt8(type & 255), UInt8(body.count >> 8), UInt8(body.count & 255)]
        let bytes = head + [0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 7, count: 12) + body
        return STUNMessage(bytes.span)
    }

    @Test("a user name is as long as the limit and no longer, and may be empty")
    func userName() {
        func takes(_ count: Int) -> Bool { read([(0x0006, [UInt8](repeating: 0x61, count: count))]) != nil }
        #expect(takes(0) && takes(STUN.usernameByteLimit) && !takes(STUN.usernameByteLimit + 1))
        #expect(read([(0x0006, [])])?.hasUsername == true && read([])?.hasUsername == false)
    }

    @Test(
        "an attribute has its one length",
        arguments: [(0x0008, 20), (0x0024, 4), (0x0025, 0), (0x802A, 8), (0x8029, 8)])
    func lengths(type: UInt16, count: Int) {
        for other in max(0, count - 2)...count + 2 {
            #expect((read([(type, [UInt8](repeating: 1, count: other))]) != nil) == (other == count), "\(other)")
        }
    }

    @Test("an error is of class 3 to 6 and number 0 to 99")
    func errorCodes() {
        func code(_ hundreds: UInt8, _ number: UInt8) -> Int? {
            read([(0x0009, [0, 0, hundreds, number])], type: 0x0111)?.errorCode
        }
        #expect(code(3, 0) == 300 && code(6, 99) == 699)
        #expect(code(2, 99) == nil && code(7, 0) == nil && code(4, 100) == nil)
        #expect(read([(0x0009, [0, 0, 4])], type: 0x0111) == nil)
    }

    @Test("the last type that must be understood is one, the first of the others is none")
    func required() {
        #expect(read([(0x7FFF, [])])?.firstUnknownRequired == 0x7FFF)
        #expect(read([(0x8000, [])])?.firstUnknownRequired == nil)
    }

    @Test("integrity and fingerprint are written into exactly as much room as they need")
    func room() {
        let id = STUNTransactionID(high: 1, low: 2)
        for missing in 0...1 {
            var fits = false
            let fingerprinted = [UInt8](capacity: 28 - missing) { out in
                var writer = STUNWriter(.request, transactionID: id, to: &out)
                writer.appendFingerprint(to: &out)
                fits = writer.fits
            }
            #expect(fits == (missing == 0) && fingerprinted.count == (fits ? 28 : 20))
            let mac = [UInt8](repeating: 9, count: 20)
            let sealed = [UInt8](capacity: 44 - missing) { out in
                var writer = STUNWriter(.request, transactionID: id, to: &out)
                writer.appendIntegrity(to: &out) { _ in STUNIntegrity(mac.span, at: 0) }
                fits = writer.fits
            }
            #expect(fits == (missing == 0) && sealed.count == (fits ? 44 : 20))
        }
    }
}
