import RTPCore
import RelayCore
import RelayTesting
import Testing

/// CALLS.md, "Participant states": a caller that asked for it has its newest key frame sent first; nothing else from before
/// the join ever is.
@Suite("The early key frame") struct EarlyKeyFrameTests {
    /// A caller whose key frame is kept and a callee, both prepared.
    private func prepared(
        keeps: Bool = true, delay: Interval = .milliseconds(10), seed: UInt64 = 1,
        _ change: (inout SimulatedClient.Options) -> Void = { _ in }
    ) throws -> (scene: CallScene, caller: CallScene.Participant, callee: CallScene.Participant) {
        let scene = try CallScene(seed: seed, quality: VirtualNetwork.Quality(delay: delay))
        let room = scene.makeRoom()
        let caller = try scene.prepare(scene.makeClient(change), in: room, keepsKeyFrame: keeps)
        let callee = try scene.prepare(scene.makeClient(change), in: room)
        #expect(scene.run(until: { scene.isPrepared(caller) && scene.isPrepared(callee) }))
        return (scene, caller, callee)
    }

    @Test(
        "the callee sees the kept key frame one delay after the join, and goes on with the next one",
        arguments: [true, false])
    func comesFirst(callerJoinsFirst: Bool) throws {
        let (scene, caller, callee) = try prepared()
        scene.run(for: .seconds(3))
        scene.join(callerJoinsFirst ? caller : callee)
        scene.run(for: .milliseconds(500))
        let sent = caller.client.sentCount(.video)
        let spoken = caller.client.sentCount(.audio)
        let joined = scene.now
        scene.join(callerJoinsFirst ? callee : caller)
        scene.run(for: .seconds(1))
        let stream = try #require(callee.client.stream(.video))
        let pictures = stream.decodablePictures
        let first = try #require(pictures.first)
        #expect(first.isKey && first.completeAt - joined <= .milliseconds(11))
        let numbers = callee.client.heard(.video, from: caller.client)
        let early = numbers.filter { $0 < sent }
        #expect(early.count == 6, "one key frame and nothing else: \(early)")
        #expect(early == Array(early[0]..<early[0] + 6))
        // A picture of 2 packets each 40 ms: at most a second.
        #expect(sent - early[0] <= 56)
        let second = try #require(pictures.dropFirst().first)
        #expect(second.isKey && second.completeAt - joined <= .milliseconds(75))
        #expect(pictures.count >= 20 && stream.keyFrameCount == 2)
        #expect(try #require(callee.client.heard(.audio, from: caller.client).first) + 1 >= spoken)
        #expect(stream.missingCount == 0)
        let times = stream.sorted.map(\.timestamp)
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(Int32(bitPattern: later &- earlier) >= 0) }
        #expect(caller.client.stream(.video)?.decodablePictures.isEmpty == false, "the other way is as ever")
    }

    @Test("pictures between it and the next key frame are dropped: they refer to what nobody saw")
    func nothingBetween() throws {
        let (scene, caller, callee) = try prepared(delay: .milliseconds(60))
        // Half-way between two requests for a key frame to keep.
        scene.run(for: .milliseconds(3_300))
        let asked = scene.engine.counters[.rtpBeforeKeyFrame]
        scene.join(caller)
        scene.join(callee)
        let joined = scene.now
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.rtpBeforeKeyFrame] >= asked + 4)
        let stream = try #require(callee.client.stream(.video))
        let pictures = stream.decodablePictures
        #expect(pictures.prefix(2).allSatisfy(\.isKey) && pictures.count > 15)
        #expect(pictures[0].completeAt - joined <= .milliseconds(61))
        #expect(pictures[1].completeAt - joined >= .milliseconds(180))
        let numbers = callee.client.heard(.video, from: caller.client)
        #expect(numbers[6] > numbers[5] + 1 && Array(numbers[6...]) == Array(numbers[6]...(numbers.last ?? 0)))
        #expect(stream.missingCount == 0)
    }

    @Test("without the wish nothing is kept, and no key frame is asked for before the join")
    func withoutWish() throws {
        let (scene, caller, callee) = try prepared(keeps: false)
        scene.run(for: .seconds(3))
        #expect(caller.client.counters.pictureLossRequests == 0)
        let sent = caller.client.sentCount(.video)
        scene.join(caller)
        scene.join(callee)
        scene.run(for: .seconds(1))
        #expect(try #require(callee.client.heard(.video, from: caller.client).first) + 2 >= sent)
    }

    @Test("while it waits, a fresh key frame is asked for every 700 ms, and not of somebody silent")
    func asked() throws {
        let (scene, caller, callee) = try prepared()
        scene.run(for: .seconds(7))
        #expect((9...11).contains(caller.client.counters.pictureLossRequests))
        #expect(callee.client.counters.pictureLossRequests == 0)
        scene.act(caller.client) { $0.stopMedia() }
        scene.run(for: .seconds(3))
        let asked = caller.client.counters.pictureLossRequests
        scene.run(for: .seconds(5))
        #expect(caller.client.counters.pictureLossRequests == asked)
        scene.act(caller.client) { $0.startMedia(now: scene.now) }
        scene.run(for: .seconds(1))
        #expect(caller.client.counters.pictureLossRequests > asked)
    }

    @Test("a key frame that is older than a second is not sent")
    func tooOld() throws {
        let (scene, caller, callee) = try prepared()
        scene.run(for: .seconds(3))
        scene.act(caller.client) { $0.stopMedia() }
        scene.run(for: .milliseconds(1_050))
        scene.join(caller)
        scene.join(callee)
        scene.run(for: .seconds(1))
        #expect(callee.client.stream(.video)?.packetCount == 0)
    }

    @Test("what a gate holds back is not kept", arguments: [MediaGates.ownVideo, .serverVideo, .held, .videoClosed])
    func gated(gate: MediaGates) throws {
        let (scene, caller, callee) = try prepared()
        scene.run(for: .seconds(3))
        scene.setGates(gate, of: caller)
        scene.run(for: .milliseconds(300))
        scene.setGates([], of: caller)
        let opened = caller.client.sentCount(.video)
        scene.join(caller)
        scene.join(callee)
        scene.run(for: .seconds(1))
        #expect(try #require(callee.client.heard(.video, from: caller.client).first) + 2 >= opened)
    }

    @Test("lost packets of it are repaired")
    func repaired() throws {
        var repairs = 0
        for seed in 1...8 as ClosedRange<UInt64> {
            let (scene, caller, callee) = try prepared(seed: seed) { $0.videoInterval = .milliseconds(250) }
            scene.run(for: .milliseconds(3_300))
            scene.join(caller)
            scene.network.setQuality(
                .init(loss: 0.3, delay: .milliseconds(10)), from: CallScene.relayAddress, to: callee.client.address)
            let sent = caller.client.sentCount(.video)
            scene.join(callee)
            scene.network.setQuality(nil, from: CallScene.relayAddress, to: callee.client.address)
            scene.run(for: .milliseconds(60))
            let stream = try #require(callee.client.stream(.video))
            repairs += stream.repairedCount
            let early = callee.client.heard(.video, from: caller.client).filter { $0 < sent }
            #expect(stream.missingCount == 0 && early.count <= 6, "seed \(seed): holes are filled: \(early)")
        }
        #expect(repairs >= 4)
    }

    @Test("a key frame beyond the bound is not kept, and the call begins as without it")
    func tooLarge() throws {
        let (scene, caller, callee) = try prepared {
            $0.packetsPerKeyFrame = 300
            $0.videoPayloadByteCount = 100
        }
        scene.run(for: .seconds(2))
        let sent = caller.client.sentCount(.video)
        scene.join(caller)
        scene.join(callee)
        scene.run(for: .seconds(1))
        let numbers = callee.client.heard(.video, from: caller.client)
        #expect(try #require(numbers.first) + 2 >= sent)
    }

    @Test("a key frame with a hole is not kept")
    func incomplete() throws {
        let (scene, caller, callee) = try prepared()
        // From here on every third of its packets is lost before it reaches the relay.
        scene.network.setQuality(
            .init(loss: 0.6, delay: .milliseconds(10)), from: caller.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(4))
        let sent = caller.client.sentCount(.video)
        scene.join(caller)
        scene.join(callee)
        scene.network.setQuality(nil, from: caller.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(1))
        #expect(try #require(callee.client.heard(.video, from: caller.client).first) + 2 >= sent)
        #expect((callee.client.stream(.video)?.decodablePictures.count ?? 0) >= 15)
    }

    @Test("a caller who leaves, or is replaced, takes its key frame along")
    func leaves() throws {
        let (scene, caller, callee) = try prepared()
        scene.run(for: .seconds(2))
        scene.remove(caller)
        let next = try scene.prepare(scene.makeClient(), in: callee.room, joins: true)
        scene.join(callee)
        scene.run(for: .seconds(1))
        #expect(callee.client.heard(.video, from: caller.client).isEmpty)
        #expect(callee.client.heard(.video, from: next.client).count > 30)
    }
}
