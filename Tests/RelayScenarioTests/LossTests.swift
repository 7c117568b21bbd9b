import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Loss on either leg, and key frames.
@Suite("Loss and key frames") struct LossTests {
    /// Loses every `period`-th media packet in one direction of one client's leg, once things run.
    static func lose(
        _ scene: CallScene, every period: Int, from: PeerAddress, to: PeerAddress, atLeast byteCount: Int = 500
    ) {
        var count = 0
        scene.network.loses = { source, target, bytes in
            guard source == from, target == to, bytes.count >= byteCount, bytes[0] & 0xC0 == 0x80 else { return false }
            count += 1
            return count % period == 0
        }
    }

    @Test("what is lost on the way to the relay is asked for and reaches the receiver")
    func upstream() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        Self.lose(scene, every: 10, from: a.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(3))
        scene.network.loses = nil
        scene.run(for: .seconds(1))
        #expect(a.client.counters.nackedPackets >= 10)
        #expect(a.client.counters.repairsSent >= 10)
        let stream = try #require(b.client.stream(.video))
        #expect(stream.missingCount == 0)
        let heard = b.client.heard(.video, from: a.client)
        #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)))
        #expect(stream.decodablePictures.count >= 110)
    }

    @Test("what is lost on the way to the receiver is repaired from the relay's history, by RTX")
    func downstream() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        Self.lose(scene, every: 10, from: CallScene.relayAddress, to: b.client.address)
        scene.run(for: .seconds(3))
        scene.network.loses = nil
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.video))
        #expect(stream.repairedCount >= 10)
        #expect(stream.missingCount == 0)
        #expect(a.client.counters.nackedPackets == 0, "the sender is not bothered")
        #expect(stream.decodablePictures.count >= 110)
        #expect(scene.engine.counters.packetsRepaired >= 10)
    }

    @Test("what a receiver asks for a second time is sent twice, and so is a second request to the sender")
    func insists() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.video))
        let number = UInt16(truncatingIfNeeded: try #require(stream.highestSequence)) &- 3
        var repaired: [UInt64] = []
        for _ in 0..<3 {
            scene.act(b.client) { $0.sendRTCP([.nack(sender: 1, media: stream.ssrc, numbers: [number])]) }
            scene.run(for: .milliseconds(100))
            repaired.append(scene.engine.counters.packetsRepaired)
        }
        #expect(repaired == [1, 3, 5])

        // One packet of the sender is lost, and the first request for it.
        var isLost = false
        var requests = 0
        scene.network.loses = { source, target, bytes in
            if source == a.client.address, !isLost, bytes.count >= 500 {
                isLost = true
                return true
            }
            let isNACK = bytes[0] & 0x1F == 1 && bytes[1] == 205
            guard source == CallScene.relayAddress, target == a.client.address, isNACK else { return false }
            requests += 1
            return requests == 1
        }
        let asked = a.client.counters.nackedPackets
        scene.run(for: .seconds(1))
        #expect(requests == 3)
        #expect(a.client.counters.nackedPackets - asked == 2)
    }

    @Test("a receiver without RTX gets the lost packet itself again")
    func downstreamWithoutRTX() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient(), in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.dialect = .gstreamer }, in: room, joins: true)
        scene.run(for: .seconds(1))
        Self.lose(scene, every: 10, from: CallScene.relayAddress, to: b.client.address)
        scene.run(for: .seconds(3))
        scene.network.loses = nil
        scene.run(for: .seconds(1))
        #expect(a.client.counters.nackedPackets == 0)
        #expect(b.client.stream(.video)?.missingCount == 0)
    }

    @Test("a sender without RTX is asked too, and its repeated packets are taken")
    func upstreamWithoutRTX() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient { $0.dialect = .gstreamer }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true)
        scene.run(for: .seconds(1))
        Self.lose(scene, every: 10, from: a.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(3))
        scene.network.loses = nil
        scene.run(for: .seconds(1))
        #expect(a.client.counters.repairsSent >= 10)
        #expect(b.client.stream(.video)?.missingCount == 0)
    }

    @Test("at five per cent loss everywhere the picture stays whole", arguments: [UInt64(1), 2, 3])
    func bothLegs(seed: UInt64) throws {
        let scene = try CallScene(seed: seed)
        let (a, b) = try scene.makePair()
        scene.network.quality = .init(loss: 0.05, delay: .milliseconds(20), jitter: .milliseconds(5))
        scene.run(for: .seconds(10))
        scene.network.quality = .perfect
        scene.run(for: .seconds(1))
        for (sender, receiver) in [(a, b), (b, a)] {
            let stream = try #require(receiver.client.stream(.video))
            let frames = Double(sender.client.sentCount(.video)) / 2.2
            #expect(Double(stream.decodablePictures.count) >= 0.9 * frames)
            #expect(Double(stream.missingCount) <= 0.01 * Double(stream.packetCount))
            let audio = try #require(receiver.client.stream(.audio))
            #expect(audio.packetCount >= 450)
        }
    }

    @Test("reordered and doubled packets do not cause repairs of what is there")
    func reordering() throws {
        let scene = try CallScene(seed: 4)
        let (a, b) = try scene.makePair()
        scene.network.quality = .init(duplication: 0.1, reordering: 0.05)
        scene.run(for: .seconds(5))
        scene.network.quality = .perfect
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.video))
        #expect(stream.missingCount == 0)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(Set(heard).count == heard.count, "nothing is heard twice")
    }

    @Test("the sender is asked for a key frame when the gate opens, and the picture begins with one")
    func keyFrameAtJoin() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.run(for: .seconds(1))
        let before = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests
        scene.join(a)
        scene.join(b)
        let joined = scene.now
        scene.run(for: .seconds(1))
        #expect(a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests > before)
        let first = try #require(b.client.stream(.video)?.decodablePictures.first)
        #expect(first.isKey)
        // Request there, next frame, and back: three delays and a frame interval.
        #expect(first.completeAt - joined <= .milliseconds(80))
    }

    @Test("as long as no key frame comes it is asked for again each 200 ms")
    func keyFrameRepeated() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        a.client.mute(.video, true)
        scene.run(for: .seconds(1))
        let before = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests
        scene.join(a)
        scene.join(b)
        scene.run(for: .seconds(1))
        let asked = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests - before
        #expect((4...7).contains(asked))
    }

    @Test("a lost key frame request is made good by the next one")
    func keyFrameRequestLost() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.run(for: .seconds(1))
        let stop = scene.now + .milliseconds(150)
        scene.network.loses = { [unowned scene] source, target, bytes in
            source == CallScene.relayAddress && target == a.client.address && scene.now < stop
                && bytes[0] & 0xC0 == 0x80
        }
        scene.join(a)
        scene.join(b)
        let joined = scene.now
        scene.run(for: .seconds(1))
        let first = try #require(b.client.stream(.video)?.decodablePictures.first)
        #expect(first.completeAt - joined <= .milliseconds(320))
    }

    @Test("a receiver's request reaches the sender, a storm of them does not")
    func receiverAsks() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        let before = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests
        scene.act(b.client) { $0.requestKeyFrame() }
        scene.run(for: .seconds(1))
        #expect(a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests == before + 1)
        for step in 0..<100 {
            scene.schedule(after: .milliseconds(Int64(10 * step))) {
                scene.act(b.client) { $0.requestKeyFrame() }
            }
        }
        scene.run(for: .seconds(2))
        let asked = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests - before - 1
        #expect((1...5).contains(asked))
    }
}
