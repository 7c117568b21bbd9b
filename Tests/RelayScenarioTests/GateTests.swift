import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Mute, hold and the gate of video, by what arrives.
@Suite("Gates of a joined participant") struct GateTests {
    /// A pair in a call for a second.
    private func talking(media: RoomMedia = .video) throws -> (CallScene, CallScene.Participant, CallScene.Participant)
    {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient(), in: room, joins: true, media: media)
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true, media: media)
        scene.run(for: .seconds(1))
        return (scene, a, b)
    }

    private func count(_ kind: MediaKind, _ receiver: CallScene.Participant, slot: Int = 0) -> Int {
        receiver.client.stream(kind, slot: slot)?.packetCount ?? 0
    }

    private func isVideoTold(_ participant: CallScene.Participant, _ scene: CallScene) -> Bool {
        scene.news(of: participant).contains { if case .media(_, .video, _) = $0 { true } else { false } }
    }

    /// Lets what is under way arrive.
    private func settle(_ scene: CallScene) { scene.run(for: .milliseconds(20)) }

    private func expectContinuous(_ receiver: CallScene.Participant, _ kind: MediaKind) throws {
        let stream = try #require(receiver.client.stream(kind))
        #expect(stream.missingCount == 0, "the numbers go on")
        let times = stream.sorted.map(\.timestamp)
        for (earlier, later) in zip(times, times.dropFirst()) { #expect(Int32(bitPattern: later &- earlier) >= 0) }
    }

    @Test(
        "muted audio is dropped and counted, whoever muted it; everything else goes on",
        arguments: [(MediaGates.ownAudio, DropReason.rtpMuted), (.serverAudio, .rtpMutedByServer)])
    func mutedAudio(gate: MediaGates, reason: DropReason) throws {
        let (scene, a, b) = try talking()
        scene.setGates(gate, of: a)
        settle(scene)
        let (audio, video, back) = (count(.audio, b), count(.video, b), count(.audio, a))
        scene.run(for: .seconds(2))
        #expect(count(.audio, b) == audio)
        #expect(scene.engine.counters[reason] >= 99)
        #expect(count(.video, b) >= video + 95)
        #expect(count(.audio, a) >= back + 95)
        let unmuted = a.client.sentCount(.audio)
        scene.setGates([], of: a)
        scene.run(for: .seconds(1))
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard.count >= audio + 45)
        let resumed = try #require(heard[audio...].first)
        #expect(resumed + 1 >= unmuted, "nothing of what was said meanwhile")
        try expectContinuous(b, .audio)
        let times = try #require(b.client.stream(.audio)).sorted.map(\.timestamp)
        let step = times[audio] &- times[audio - 1]
        #expect((94_000...100_000).contains(step), "the time that passed has passed: \(step) ticks")
    }

    @Test("unmuted video begins with a key frame that was asked for at once")
    func mutedVideo() throws {
        let (scene, a, b) = try talking()
        scene.setGates(.ownVideo, of: a)
        settle(scene)
        let (shown, asked) = (count(.video, b), a.client.counters.pictureLossRequests)
        scene.run(for: .seconds(1))
        #expect(count(.video, b) == shown)
        #expect(a.client.counters.pictureLossRequests == asked, "nobody wants what nobody gets")
        scene.setGates([], of: a)
        scene.run(for: .milliseconds(150))
        #expect(a.client.counters.pictureLossRequests == asked + 1)
        let stream = try #require(b.client.stream(.video))
        #expect(stream.keyFrameCount == 2)
        scene.run(for: .seconds(1))
        #expect(stream.decodablePictures.count >= 45)
        try expectContinuous(b, .video)
    }

    @Test("on hold nothing passes in either direction, and both directions come back with a key frame")
    func hold() throws {
        let (scene, a, b) = try talking()
        scene.setGates(.held, of: a)
        settle(scene)
        let before = [a, b].map { (count(.audio, $0), count(.video, $0)) }
        let forwarded = scene.engine.counters.packetsForwarded
        let asked = [a, b].map { $0.client.counters.pictureLossRequests }
        scene.run(for: .seconds(3))
        #expect(scene.engine.counters.packetsForwarded == forwarded)
        #expect(scene.engine.counters[.rtpHeld] >= 290)
        for (participant, counts) in zip([a, b], before) {
            #expect(count(.audio, participant) == counts.0 && count(.video, participant) == counts.1)
        }
        let sent = [a, b].map { $0.client.sentCount(.audio) }
        scene.setGates([], of: a)
        scene.run(for: .seconds(1))
        #expect(a.client.counters.pictureLossRequests == asked[0] + 1)
        #expect(b.client.counters.pictureLossRequests == asked[1] + 1)
        for (receiver, sender, (index, old)) in [(b, a, (1, sent[0])), (a, b, (0, sent[1]))] {
            let heard = receiver.client.heard(.audio, from: sender.client)
            #expect(heard.count >= before[index].0 + 45)
            #expect(try #require(heard[before[index].0...].first) + 1 >= old)
            #expect((receiver.client.stream(.video)?.decodablePictures.count ?? 0) >= 40)
            try expectContinuous(receiver, .audio)
            try expectContinuous(receiver, .video)
        }
    }

    @Test("in a group the others go on while one is on hold, whose wishes and repairs wait")
    func holdInGroup() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try (0..<3).map { _ in
            try scene.prepare(GroupTests.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        }
        let (held, b, c) = (people[0], people[1], people[2])
        scene.run(for: .seconds(1))
        // Lost on the way to the one who will be on hold: it will ask for them.
        scene.network.setQuality(.init(loss: 1), from: CallScene.relayAddress, to: held.client.address)
        scene.run(for: .milliseconds(200))
        scene.setGates(.held, of: held)
        scene.network.setQuality(nil, from: CallScene.relayAddress, to: held.client.address)
        settle(scene)
        let asked = [b, c].map { $0.client.counters.pictureLossRequests }
        let got = (0..<2).map { (count(.audio, held, slot: $0), count(.video, held, slot: $0)) }
        let heard = GroupTests.heard(b.client, from: c.client, slots: 2)
        for slot in 0..<2 {
            scene.act(held.client) { $0.requestKeyFrame(slot: slot) }
            let stream = try #require(held.client.stream(.video, slot: slot))
            let newest = UInt16(truncatingIfNeeded: try #require(stream.highestSequence))
            scene.act(held.client) {
                $0.sendRTCP([.nack(sender: 1, media: stream.ssrc, numbers: [newest, newest + 1])])
            }
        }
        scene.run(for: .seconds(2))
        #expect(GroupTests.heard(b.client, from: c.client, slots: 2) >= heard + 95)
        #expect([b, c].map { $0.client.counters.pictureLossRequests } == asked)
        for slot in 0..<2 {
            #expect(count(.audio, held, slot: slot) == got[slot].0 && count(.video, held, slot: slot) == got[slot].1)
        }
        scene.setGates([], of: held)
        scene.run(for: .seconds(2))
        for other in [b, c] {
            #expect(GroupTests.heard(held.client, from: other.client, slots: 2) >= 130)
            #expect(other.client.counters.pictureLossRequests > asked[0])
        }
    }

    @Test("what was forwarded to others while one was on hold is never repaired for that one")
    func nothingOfTheHoldComesLater() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try (0..<3).map { _ in
            try scene.prepare(GroupTests.makeClient(scene, others: 2), in: room, kind: .group, joins: true)
        }
        scene.run(for: .seconds(1))
        scene.setGates(.held, of: people[0])
        settle(scene)
        let first = people.map { $0.client.sentCount(.video) }
        scene.run(for: .seconds(1))
        let last = people.map { $0.client.sentCount(.video) }
        scene.setGates([], of: people[0])
        scene.run(for: .milliseconds(300))
        for slot in 0..<2 {
            let stream = try #require(people[0].client.stream(.video, slot: slot))
            let newest = UInt16(truncatingIfNeeded: try #require(stream.highestSequence))
            let numbers = (0..<150).map { newest &- 150 &+ UInt16($0) }
            scene.act(people[0].client) { $0.sendRTCP([.nack(sender: 1, media: stream.ssrc, numbers: numbers)]) }
        }
        scene.run(for: .seconds(1))
        for slot in 0..<2 {
            let stamps = try #require(people[0].client.stream(.video, slot: slot)).stamps
            for index in 1..<3 {
                let numbers = stamps.filter { $0.sender == people[index].client.tag }.map(\.number)
                #expect(!numbers.contains { $0 > first[index] && $0 + 2 < last[index] })
            }
        }
    }

    @Test("a right to receive that is taken away stops what comes, not what is sent")
    func receiving() throws {
        let (scene, a, b) = try talking()
        scene.setGates(.receiving, of: a)
        settle(scene)
        let (got, gave) = (count(.audio, a) + count(.video, a), count(.audio, b))
        scene.run(for: .seconds(1))
        #expect(count(.audio, a) + count(.video, a) == got)
        #expect(count(.audio, b) >= gave + 45)
    }

    @Test("in an audio call no video passes and none is asked for, until its gates open for both")
    func audioCall() throws {
        let (scene, a, b) = try talking(media: .audio)
        scene.run(for: .seconds(1))
        for participant in [a, b] {
            #expect(count(.video, participant) == 0)
            #expect(count(.audio, participant) >= 90)
            #expect(participant.client.counters.pictureLossRequests == 0)
            #expect(!isVideoTold(participant, scene))
        }
        #expect(scene.engine.counters[.rtpVideoClosed] >= 150)
        scene.setGates([], of: a)
        #expect(count(.video, b) == 0, "one side alone opens nothing")
        scene.setGates([], of: b)
        let opened = scene.now
        scene.run(for: .milliseconds(200))
        for participant in [a, b] {
            #expect(participant.client.counters.pictureLossRequests >= 1)
            let stream = try #require(participant.client.stream(.video))
            let picture = try #require(stream.decodablePictures.first)
            // The request, the next picture, and its way: one interval and three delays.
            #expect(picture.isKey && picture.completeAt - opened <= .milliseconds(75))
            #expect(isVideoTold(participant, scene))
            try expectContinuous(participant, .audio)
        }
    }

    @Test("gates shut before the join are shut after it")
    func beforeTheJoin() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient(), in: room, gates: .ownAudio)
        let b = try scene.prepare(scene.makeClient(), in: room)
        scene.run(until: { scene.isPrepared(a) && scene.isPrepared(b) })
        scene.setGates(.ownVideo, of: b)
        #expect(scene.engine.snapshot().map(\.gates).sorted { $0.rawValue < $1.rawValue } == [.ownAudio, .ownVideo])
        scene.join(a)
        scene.join(b)
        scene.run(for: .seconds(1))
        #expect(count(.audio, b) == 0 && count(.video, b) > 40)
        #expect(count(.video, a) == 0 && count(.audio, a) > 40)
    }

    @Test("whoever leaves muted or on hold frees its slots", arguments: [MediaGates.ownAudio, .held])
    func leaveMuted(gates: MediaGates) throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(GroupTests.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        let b = try scene.prepare(GroupTests.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(1))
        scene.setGates(gates, of: b)
        scene.run(for: .seconds(1))
        scene.leave(b)
        scene.run(for: .seconds(1))
        let c = try scene.prepare(GroupTests.makeClient(scene, others: 1), in: room, kind: .group, joins: true)
        scene.run(for: .seconds(2))
        for kind in MediaKind.allCases { #expect(a.client.heard(kind, from: c.client).count >= 80) }
        #expect(c.client.heard(.audio, from: a.client).count >= 80)
    }

    @Test("gates of somebody who is gone, or who was never there, are no matter")
    func unknown() throws {
        let (scene, a, b) = try talking()
        scene.remove(a)
        scene.setGates(.held, of: a)
        scene.command(.gates(ParticipantHandle(77), .held))
        scene.run(for: .seconds(1))
        #expect(scene.engine.transportCount == 1 && !b.hasLeft)
    }
}
