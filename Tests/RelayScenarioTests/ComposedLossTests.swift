import RTPCore
import RelayCore
import RelayTesting
import Testing

/// What a sender of sound is told of the loss on both legs, so that its codec protects what the far one loses.
@Suite("Loss of both legs in a sender's reports") struct ComposedLossTests {
    /// Every `period`-th packet of sound is lost on the ways that `isWay` names.
    private func loseSound(
        _ scene: CallScene, every period: Int, on isWay: @escaping (PeerAddress, PeerAddress) -> Bool
    ) {
        var counts: [ArraySlice<UInt8>: Int] = [:]
        scene.network.loses = { source, target, bytes in
            // Media of a small packet: neither RTCP nor a picture.
            guard isWay(source, target), bytes.count < 300, bytes[0] & 0xC0 == 0x80, !(192...223).contains(bytes[1])
            else {
                return false
            }
            // Each stream by itself: two that take turns would lose all of one.
            let ssrc = bytes[8..<12]
            counts[ssrc, default: 0] += 1
            return counts[ssrc, default: 0] % period == 0
        }
    }

    /// The last report that `client` got of its own sound or picture.
    private func report(_ kind: MediaKind, of client: SimulatedClient) throws -> ReportBlock {
        let ssrc = try #require(client.sendingSSRC(kind))
        return try #require(client.lastReceiverBlocks.first { $0.ssrc == ssrc })
    }

    @Test("in a peer room a tenth lost on the far leg is a tenth in the sender's report of sound, not of the picture")
    func farLeg() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        loseSound(scene, every: 10) { $0 == CallScene.relayAddress && $1 == b.client.address }
        scene.run(for: .seconds(6))
        let sound = try report(.audio, of: a.client)
        #expect((20...32).contains(sound.fractionLost), "\(sound.fractionLost) of 256")
        #expect(sound.cumulativeLost == 0, "nothing of its own is lost, and its rate is taken from this")
        #expect(try report(.video, of: a.client).fractionLost == 0)
        #expect(try report(.audio, of: b.client).fractionLost == 0)
    }

    @Test("a tenth lost on both legs is 19 per cent together") func bothLegs() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let (near, far) = (a.client.address, b.client.address)
        loseSound(scene, every: 10) { source, target in
            (source == CallScene.relayAddress && target == far) || (source == near && target == CallScene.relayAddress)
        }
        scene.run(for: .seconds(8))
        let sound = try report(.audio, of: a.client)
        #expect((40...58).contains(sound.fractionLost), "\(sound.fractionLost) of 256")
    }

    @Test("when the far leg is whole again, so is the report") func over() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        loseSound(scene, every: 4) { $0 == CallScene.relayAddress && $1 == b.client.address }
        scene.run(for: .seconds(5))
        #expect(try report(.audio, of: a.client).fractionLost > 40)
        scene.network.loses = nil
        scene.run(for: .seconds(5))
        #expect(try report(.audio, of: a.client).fractionLost == 0)
    }

    @Test("in a group the worst leg of those who hear counts, a fifth at most") func group() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try (0..<3).map { _ in
            try scene.prepare(GroupTests.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        }
        scene.run(for: .seconds(2))
        loseSound(scene, every: 2) { $0 == CallScene.relayAddress && $1 == people[1].client.address }
        scene.run(for: .seconds(6))
        #expect(try report(.audio, of: people[0].client).fractionLost == 51)
        #expect(try report(.audio, of: people[2].client).fractionLost == 51)
        #expect(try report(.audio, of: people[1].client).fractionLost == 0)
    }
}
