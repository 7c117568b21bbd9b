import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Case D01: a hello that does not fit one datagram.
@Suite("DTLS: a ClientHello in pieces") struct HelloFragmentTests {
    @Test("a hello with a post-quantum key share arrives in two datagrams, as browsers send it")
    func bigHello() throws {
        let scene = try HandshakeScene(client: client { $0.helloPadding = 1_216 })
        scene.connect()
        #expect(scene.keysAgree)
        let hello = try #require(scene.sent[.toRelay])
        #expect(hello[0].count > 1_000)
        #expect(hello[1][0] == 22 && hello[1][13] == 1, "the second datagram is a part of the hello too")
    }

    enum Cut: String, CaseIterable {
        case inOrder, reversed, overlapping, overlappingReversed, repeated, tiny

        func pieces(of count: Int) -> [Range<Int>] {
            switch self {
            case .inOrder: [0..<1100, 1100..<count]
            case .reversed: [1100..<count, 0..<1100]
            case .overlapping: [0..<800, 600..<1300, 1100..<count]
            case .overlappingReversed: [1100..<count, 600..<1300, 0..<800]
            case .repeated: [0..<1100, 0..<1100, 1100..<count, 1100..<count]
            case .tiny: stride(from: 0, to: count, by: 100).map { $0..<min(count, $0 + 100) }
            }
        }
    }

    @Test("pieces are put together in any order and overlap", arguments: Cut.allCases)
    func anyOrder(cut: Cut) throws {
        let client = client { $0.helloPadding = 1_216 }
        client.helloPieces = cut.pieces
        let scene = try HandshakeScene(client: client)
        scene.connect()
        #expect(scene.keysAgree)
    }

    @Test("when the first piece is lost, the repeated hello completes it")
    func firstPieceLost() throws {
        let client = client { $0.helloPadding = 1_216 }
        client.helloPieces = Cut.inOrder.pieces
        let scene = try HandshakeScene(client: client)
        scene.loses = { direction, number, _ in direction == .toRelay && number == 0 }
        scene.connect()
        #expect(scene.keysAgree)
        #expect(client.repeatCount == 1)
    }

    @Test("a hello that prefers DTLS 1.3 with an unknown group is answered with 1.2", arguments: Cut.allCases)
    func versionThirteenHello(cut: Cut) throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFC, 0xFEFD])
        #expect(body.count > 1_300, "more than one datagram")
        for (number, piece) in cut.pieces(of: body.count).enumerated() {
            scene.inject(helloRecord(body, piece, number: UInt8(number)))
        }
        let answer = try #require(scene.sent[.toClient]?.first)
        #expect(answer[0] == 22 && answer[13] == 2, "a ServerHello")
        #expect(Array(answer[25..<27]) == [0xFE, 0xFD])
    }

    @Test("a client that speaks only DTLS 1.3 ends soon after it says so")
    func onlyThirteen() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFC])
        scene.inject(helloRecord(body, 0..<body.count, number: 0))
        let said = scene.now
        scene.inject([21, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 70])
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .noSRTPProfile)
        #expect(scene.now - said <= .seconds(3))
    }

    @Test("sixty-four pieces of as many different hellos leave nothing behind")
    func inconsistentPieces() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        for number in 0..<64 {
            var record = helloRecord(body, 0..<100, number: UInt8(number))
            record[15] = UInt8(2 + number / 16)
            record[16] = UInt8(number)
            scene.inject(record)
        }
        #expect(scene.sent[.toClient]?.isEmpty == true)
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .handshakeFailed)
        #expect(scene.handshaker.inFlightCount == 0)
        #expect(scene.handshaker.count == 0)
    }
}

/// The ClientHello of case D01: suites 1301 c02b c02f; extensions extended_master_secret, renegotiation_info,
/// supported_groups (11ec 001d 0017), key_share (1,216 and 32 bytes), signature_algorithms, use_srtp, supported_versions.
func postQuantumHelloBody(versions: [UInt16]) -> [UInt8] {
    func u16(_ value: Int) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }
    func block(_ type: Int, _ content: [UInt8]) -> [UInt8] { u16(type) + u16(content.count) + content }
    var generator = RandomSource.seeded(13)
    func random(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: generator.next()) } }
    let entries = u16(0x11EC) + u16(1_216) + random(1_216) + u16(0x001D) + u16(32) + random(32)
    let shares = u16(entries.count) + entries
    let versionList = versions.flatMap { u16(Int($0)) }
    var extensions = block(23, [])
    extensions += block(0xFF01, [0])
    extensions += block(10, u16(6) + u16(0x11EC) + u16(0x1D) + u16(0x17))
    extensions += block(51, shares)
    extensions += block(13, u16(6) + u16(0x0403) + u16(0x0804) + u16(0x0401))
    extensions += block(14, u16(4) + u16(7) + u16(1) + [0])
    extensions += block(43, [UInt8(versionList.count)] + versionList)
    let suites = u16(0x1301) + u16(0xC02B) + u16(0xC02F)
    var body: [UInt8] = [0xFE, 0xFD] + random(32)
    body += [0, 0] + u16(suites.count) + suites + [1, 0] + u16(extensions.count) + extensions
    return body
}

/// One plaintext record with one fragment of a ClientHello.
func helloRecord(_ body: [UInt8], _ piece: Range<Int>, number: UInt8) -> [UInt8] {
    func u24(_ value: Int) -> [UInt8] { [UInt8(value >> 16), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)] }
    var record: [UInt8] = [22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, number]
    record += [UInt8((piece.count + 12) >> 8), UInt8((piece.count + 12) & 0xFF)]
    record += [1] + u24(body.count) + [0, 0] + u24(piece.lowerBound) + u24(piece.count)
    return record + body[piece]
}
