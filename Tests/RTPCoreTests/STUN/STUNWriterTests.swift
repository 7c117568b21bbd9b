import RTPCore
import RelayTesting
import Testing

@Suite("STUN writer")
struct STUNWriterTests {
    static let key = Array("srvPwd0123456789abcdef".utf8)
    static let transaction = STUNTransactionID(high: 0x0001_0203, low: 0x0405_0607_0809_0A0B)

    /// Builds into a buffer of `capacity` bytes, of which the first are taken by something else already.
    static func build(
        capacity: Int = 548, behind: [UInt8] = [], _ messageClass: STUNClass = .request,
        _ fill: (inout STUNWriter, inout OutputSpan<UInt8>) -> Void
    ) -> (bytes: [UInt8], fits: Bool) {
        var fits = false
        let bytes = [UInt8](capacity: capacity) { out in
            for byte in behind { out.append(byte) }
            var writer = STUNWriter(messageClass, transactionID: transaction, to: &out)
            fill(&writer, &out)
            fits = writer.fits
        }
        return (bytes, fits)
    }
    static func sign(_ writer: inout STUNWriter, _ out: inout OutputSpan<UInt8>) {
        writer.appendIntegrity(to: &out) { messageIntegrity(copy($0), key: key) }
        writer.appendFingerprint(to: &out)
    }
    static func appendUsername(_ writer: inout STUNWriter, _ out: inout OutputSpan<UInt8>) {
        let receiver = Array("srvU".utf8)
        let sender = Array("cliF".utf8)
        writer.appendUsername(receiver: receiver.span, sender: sender.span, to: &out)
    }

    @Test("the success response of the vectors is rebuilt byte by byte")
    func successResponse() {
        let built = Self.build(.success) { writer, out in
            writer.appendMappedAddress(PeerAddress(ipv4: 0x7F00_0001, port: 50_000), to: &out)
            Self.sign(&writer, &out)
        }
        #expect(hexText(built.bytes) == hexText(STUNMessageTests.row("ice-success-response-127.0.0.1:50000")))
        #expect(built.fits)
    }

    @Test("the controlling check of the vectors is rebuilt byte by byte")
    func controllingCheck() {
        let built = Self.build { writer, out in
            Self.appendUsername(&writer, &out)
            writer.appendPriority(0x6E7F_1EFF, to: &out)
            writer.appendControlling(tieBreaker: 0x1122_3344_5566_7788, to: &out)
            Self.sign(&writer, &out)
        }
        #expect(hexText(built.bytes) == hexText(STUNMessageTests.row("ice-check-controlling")))
    }

    @Test("the nominating check of the vectors is rebuilt byte by byte")
    func nominatingCheck() {
        let built = Self.build { writer, out in
            Self.appendUsername(&writer, &out)
            writer.appendPriority(0x6E7F_1EFF, to: &out)
            writer.appendControlling(tieBreaker: 0x1122_3344_5566_7788, to: &out)
            writer.appendUseCandidate(to: &out)
            Self.sign(&writer, &out)
        }
        #expect(hexText(built.bytes) == hexText(STUNMessageTests.row("ice-check-use-candidate")))
    }

    @Test("the binding indication of the vectors is rebuilt byte by byte")
    func indication() {
        let built = Self.build(.indication) { writer, out in writer.appendFingerprint(to: &out) }
        #expect(hexText(built.bytes) == hexText(STUNMessageTests.row("binding-indication")))
    }

    @Test("our own check as a lite agent is read back with all its parts")
    func controlledCheck() throws {
        let built = Self.build { writer, out in
            Self.appendUsername(&writer, &out)
            writer.appendPriority(1, to: &out)
            writer.appendControlled(tieBreaker: UInt64.max, to: &out)
            Self.sign(&writer, &out)
        }
        let message = try #require(STUNMessage.read(built.bytes))
        #expect(message.usernameIs("srvU", "cliF", in: built.bytes))
        #expect(message.priority == 1)
        #expect(message.iceControlled == UInt64.max)
        #expect(message.hasFingerprint)
        #expect(message.isAuthentic(built.bytes, key: Self.key))
    }

    @Test("an IPv6 address survives the XOR both ways")
    func ipv6() throws {
        let peer = try #require(PeerAddress(address: "2001:db8::1234", port: 65_535))
        let built = Self.build(.success) { writer, out in writer.appendMappedAddress(peer, to: &out) }
        #expect(STUNMessage.read(built.bytes)?.mappedAddress == peer)
        #expect(built.bytes.count == 20 + 24)
    }

    @Test(
        "error codes are read back and carry their reason phrase",
        arguments: [
            (400, "Bad Request"), (401, "Unauthenticated"), (420, "Unknown Attribute"),
            (487, "Role Conflict"),
        ])
    func errorCodes(_ code: Int, _ reason: String) throws {
        let built = Self.build(.failure) { writer, out in
            writer.appendErrorCode(code, to: &out)
            Self.sign(&writer, &out)
        }
        let message = try #require(STUNMessage.read(built.bytes))
        #expect(message.messageClass == .failure)
        #expect(message.errorCode == code)
        #expect(String(decoding: built.bytes, as: UTF8.self).contains(reason))
        #expect(message.isAuthentic(built.bytes, key: Self.key))
    }

    @Test("error 420 names the unknown attribute")
    func unknownAttributes() {
        let built = Self.build(.failure) { writer, out in writer.appendUnknownAttribute(0x7F00, to: &out) }
        #expect(Array(built.bytes.suffix(8)) == [0, 10, 0, 2, 0x7F, 0, 0, 0])
    }

    @Test(
        "every class and method is written as it is read",
        arguments: [
            (.request, 1), (.indication, 1), (.success, 1), (.failure, 1), (.failure, 0xFFF),
            (.request, 0x0A5), (.success, 0xF5A),
        ] as [(STUNClass, UInt16)])
    func types(_ messageClass: STUNClass, _ method: UInt16) throws {
        let bytes = [UInt8](capacity: 20) { out in
            _ = STUNWriter(messageClass, method: method, transactionID: Self.transaction, to: &out)
        }
        let message = try #require(STUNMessage.read(bytes))
        #expect(message.messageClass == messageClass)
        #expect(message.method == method)
        #expect(message.transactionID == Self.transaction)
    }

    @Test("a message is built the same behind bytes that are already there")
    func behindOtherBytes() {
        let alone = Self.build { writer, out in Self.sign(&writer, &out) }
        let behind = Self.build(behind: [1, 2, 3]) { writer, out in Self.sign(&writer, &out) }
        #expect(behind.bytes == [1, 2, 3] + alone.bytes)
    }

    @Test("without room nothing is overrun and `fits` says so, at every capacity")
    func smallCapacities() {
        let whole = Self.build { writer, out in
            Self.appendUsername(&writer, &out)
            Self.sign(&writer, &out)
        }
        #expect(whole.fits)
        for capacity in 0..<whole.bytes.count {
            let built = Self.build(capacity: capacity) { writer, out in
                Self.appendUsername(&writer, &out)
                Self.sign(&writer, &out)
            }
            #expect(!built.fits)
        }
    }

    @Test("the success response is not larger than the smallest authentic request")
    func noAmplification() {
        let request = Self.build { writer, out in
            Self.appendUsername(&writer, &out)
            Self.sign(&writer, &out)
        }
        let response = Self.build(.success) { writer, out in
            writer.appendMappedAddress(PeerAddress(ipv4: 1, port: 1), to: &out)
            Self.sign(&writer, &out)
        }
        #expect(response.bytes.count <= request.bytes.count)
    }
}
