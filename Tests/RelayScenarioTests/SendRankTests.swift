import RTPCore
import RelayCore
import RelayTesting
import Testing

/// When not all can leave, what leaves is chosen by what each datagram is worth.
@Suite("Ranks of datagrams") struct SendRankTests {
    @Test("every datagram of a call with loss is ranked as what it is: sound, pictures, repairs and everything else")
    func ranks() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        var counts: [SendRank: Int] = [:]
        var wrong = 0
        scene.network.loses = { _, to, bytes in to == b.client.address && bytes.count > 500 && bytes[3] % 10 == 3 }
        scene.onTransmit = { bytes, to in
            guard let receiver = [a, b].first(where: { $0.client.address == to }) else { return }
            let rank = bytes.withUnsafeBufferPointer { buffer in
                buffer.baseAddress.map { scene.engine.rank($0, count: buffer.count, to: to) } ?? .control
            }
            counts[rank, default: 0] += 1
            guard DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: bytes.count) == .rtp else {
                if rank != .control { wrong += 1 }
                return
            }
            let type = bytes[1] & 0x7F
            let section = receiver.client.sections.first { $0.payloadType == type || $0.rtxPayloadType == type }
            let expected: SendRank =
                section?.kind == .audio ? .audio : section?.rtxPayloadType == type ? .repair : .video
            if rank != expected { wrong += 1 }
        }
        scene.run(for: .seconds(3))
        #expect(wrong == 0)
        for rank in SendRank.allCases { #expect(counts[rank, default: 0] > 5, "\(rank): \(counts)") }
    }

    @Test("what cannot be told is a picture, what is too short for media is not")
    func unknown() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .milliseconds(500))
        func rank(_ bytes: [UInt8], to peer: PeerAddress) -> SendRank {
            bytes.withUnsafeBufferPointer { buffer in
                buffer.baseAddress.map { scene.engine.rank($0, count: buffer.count, to: peer) } ?? .control
            }
        }
        let packet = [0x80, 96] + [UInt8](repeating: 1, count: 30)
        #expect(rank(packet, to: a.client.address) == .video)
        #expect(rank(packet, to: PathTests.elsewhere) == .video)
        #expect(rank([0x80, 96, 0], to: a.client.address) == .control)
        #expect(rank([0x16] + [UInt8](repeating: 0, count: 30), to: a.client.address) == .control)
    }
}
