import RTPCore
import RelayCore
import RelayTesting
import Testing

/// A peer call over a narrow way down: the other side is held to what it carries.
@Suite("A receiver's path") struct DownlinkTests {
    /// Two who send 1.3 Mbit/s of pictures each.
    private func makeCall(
        _ scene: CallScene, keepsPackets: Bool = false, asksForKeyFrames: Bool = true
    ) throws -> (a: CallScene.Participant, b: CallScene.Participant) {
        let room = scene.makeRoom()
        func client() -> SimulatedClient {
            scene.makeClient {
                $0.packetsPerFrame = 6
                $0.packetsPerKeyFrame = 8
                $0.keepsPackets = keepsPackets
                $0.asksForKeyFrames = asksForKeyFrames
            }
        }
        return (
            try scene.prepare(client(), in: room, joins: true), try scene.prepare(client(), in: room, joins: true)
        )
    }

    /// Cuts the way down to one of them to 400 kbit/s.
    private func narrow(_ scene: CallScene, to receiver: CallScene.Participant) {
        var quality = VirtualNetwork.Quality.perfect
        quality.rate = 400_000
        scene.network.setQuality(quality, from: CallScene.relayAddress, to: receiver.client.address)
    }

    /// What the relay sends to one of them within `interval`, bits per second.
    private func rate(_ scene: CallScene, to receiver: CallScene.Participant, over interval: Interval) -> Double {
        var byteCount = 0
        let address = receiver.client.address
        scene.onTransmit = { bytes, to in
            if to == address { byteCount += bytes.count }
        }
        scene.run(for: interval)
        scene.onTransmit = nil
        return Double(byteCount) * 8e9 / Double(interval.nanoseconds)
    }

    @Test("a wide path holds nobody: no limit is told")
    func wide() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene)
        scene.run(for: .seconds(10))
        #expect(b.client.counters.feedbackSent > 100)
        #expect(a.client.bitrateLimit == nil)
        #expect(rate(scene, to: b, over: .seconds(2)) > 1_200_000)
    }

    @Test("a way down cut to 400 kbit/s holds the other side within 3 s, and its end lets go within 20 s")
    func cut() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene)
        scene.run(for: .seconds(5))
        narrow(scene, to: b)
        scene.run(for: .seconds(3))
        let held = rate(scene, to: b, over: .seconds(5))
        #expect(held < 480_000, "\(held) bit/s")
        #expect(held > 200_000, "\(held) bit/s")
        let lost = try #require(b.client.stream(.audio)).missingCount
        scene.run(for: .seconds(5))
        let lostLater = try #require(b.client.stream(.audio)).missingCount
        #expect(lostLater - lost <= 3, "audio has its place: \(lostLater - lost) of 250 lost")
        scene.network.setQuality(nil, from: CallScene.relayAddress, to: b.client.address)
        scene.run(for: .seconds(20))
        #expect(a.client.bitrateLimit.map { $0 > 1_000_000 } == true, "\(a.client.bitrateLimit ?? 0)")
        #expect(rate(scene, to: b, over: .seconds(2)) > 1_200_000)
    }

    @Test("a picture that a cut has torn begins anew within a second, though its receiver asks for no key frame")
    func torn() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene, keepsPackets: true, asksForKeyFrames: false)
        scene.run(for: .seconds(5))
        let cut = scene.now
        let asked = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests
        narrow(scene, to: b)
        scene.run(for: .seconds(6))
        let more = a.client.counters.pictureLossRequests + a.client.counters.fullIntraRequests - asked
        #expect((1...6).contains(more), "at most one a second: \(more)")
        let shown = try #require(b.client.stream(.video)).decodablePictures.map(\.completeAt).filter { $0 >= cut }
        let pauses = zip([cut] + shown, shown + [scene.now]).map { $1 - $0 }
        let longest = try #require(pauses.max())
        #expect(longest <= .milliseconds(1_200), "no picture for \(longest)")
    }

    @Test("the other direction is not touched")
    func otherWay() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene)
        scene.run(for: .seconds(3))
        narrow(scene, to: b)
        scene.run(for: .seconds(5))
        #expect(a.client.bitrateLimit != nil)
        #expect(b.client.bitrateLimit == nil)
        #expect(rate(scene, to: a, over: .seconds(2)) > 1_200_000)
    }

    @Test("the hold ends with the one whose path it was")
    func leaves() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene)
        scene.run(for: .seconds(3))
        narrow(scene, to: b)
        scene.run(for: .seconds(3))
        #expect(a.client.bitrateLimit.map { $0 < 600_000 } == true)
        scene.remove(b)
        scene.run(for: .seconds(1))
        #expect(a.client.bitrateLimit == 5_000_000)
    }

    @Test("in a group nobody is held for one receiver's sake")
    func group() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let members = try (0..<3).map { _ in
            try scene.prepare(
                scene.makeClient {
                    $0.packetsPerFrame = 6
                    $0.keepsPackets = false
                }, in: room, kind: .group, joins: true)
        }
        narrow(scene, to: members[2])
        scene.run(for: .seconds(6))
        #expect(members.allSatisfy { $0.client.bitrateLimit == nil })
    }

    @Test("sound alone carries no numbers and costs no feedback")
    func audioOnly() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient { $0.hasVideo = false }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.hasVideo = false }, in: room, joins: true)
        scene.run(for: .seconds(3))
        #expect(b.client.stream(.audio)?.packetCount ?? 0 > 100)
        #expect(a.client.counters.feedbackSent == 0 && b.client.counters.feedbackSent == 0)
    }

    @Test("a receiver without RTX gets packets without numbers: its repeats stay identical")
    func withoutRTX() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        _ = try scene.prepare(scene.makeClient(), in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.dialect = .gstreamer }, in: room, joins: true)
        scene.run(for: .seconds(3))
        #expect(b.client.counters.feedbackSent == 0)
    }
}
