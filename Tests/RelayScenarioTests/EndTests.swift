import RTPCore
import RelayCore
import RelayTesting
import Testing

/// How transports end, and what stays of them.
@Suite("Ends of a transport") struct EndTests {
    @Test("a client's close_notify ends its transport at once, and only its own")
    func clientLeaves() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        scene.leave(a)
        let left = scene.now
        #expect(scene.run(until: { scene.end(of: a) != nil }))
        #expect(scene.end(of: a) == .closed)
        #expect(scene.now - left <= .milliseconds(10))
        scene.run(for: .seconds(1))
        #expect(scene.end(of: b) == nil, "outcomes are the conductor's")
        #expect(scene.engine.transportCount == 1)
    }

    @Test("a removed client is sent close_notify, and its last counters are told, once")
    func relayRemoves() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        let count = scene.news(of: a).count
        let removedAt = scene.now
        scene.remove(a)
        scene.run(for: .seconds(1))
        #expect(a.client.phase == .closed)
        #expect(scene.news(of: a).count == count + 1)
        guard case .removed(_, let figures, removedAt)? = scene.news(of: a).last else {
            Issue.record("the last news is \(String(describing: scene.news(of: a).last))")
            return
        }
        #expect(figures.packetsReceived > 80 && figures.packetsSent > 80)
        #expect(scene.engine.transportCount == 1)
        #expect(scene.handshaker.count == 1)
    }

    @Test("a removed client's packets are those of a stranger")
    func afterRemoval() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        // It does not hear the goodbye and goes on sending.
        scene.network.setQuality(.init(loss: 1), from: CallScene.relayAddress, to: a.client.address)
        scene.remove(a)
        let heard = b.client.heard(.audio, from: a.client).count
        var out = 0
        let address = a.client.address
        scene.run(for: .milliseconds(50))
        scene.onTransmit = { _, to in if to == address { out += 1 } }
        scene.run(for: .seconds(10))
        #expect(out == 0)
        #expect(b.client.heard(.audio, from: a.client).count <= heard + 3)
        #expect(scene.engine.counters[.rtpUnknownAddress] > 400)
    }

    @Test("alone, the worker ends a peer room for both when one joined side closes")
    func aloneClosed() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        scene.engine.isAlone = true
        scene.leave(a)
        scene.run(for: .seconds(1))
        #expect(scene.end(of: a) == .closed)
        #expect(scene.end(of: b) == .peerLeft)
        #expect(b.client.phase == .closed)
        #expect(scene.engine.transportCount == 0)
    }

    @Test("alone, a side that stays away for 30 s ends the peer room too")
    func aloneLost() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.engine.isAlone = true
        scene.run(for: .seconds(1))
        a.client.vanish()
        scene.run(for: .seconds(32))
        #expect(scene.end(of: a) == .lost)
        #expect(scene.end(of: b) == .peerLeft)
    }

    @Test("with control there, a lost side ends nothing but itself")
    func lostWithControl() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        a.client.vanish()
        scene.run(for: .seconds(32))
        #expect(scene.end(of: a) == .lost)
        #expect(scene.end(of: b) == nil)
    }

    @Test("a wrong fingerprint ends as such: no key, no media, no prepared")
    func fingerprint() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true)
        let a = scene.makeClient()
        let thief = scene.makeClient { $0.name = "thief" }
        // The thief has the client's credentials but not its certificate.
        let participant = try scene.prepare(a, in: room, joins: true)
        a.vanish()
        try thief.accept(answer: participant.session.answer, now: scene.now)
        thief.restartICE(local: a.localICE, remote: participant.session.localICE, now: scene.now)
        let stranger = try scene.adopt(thief, as: participant)
        #expect(scene.run(until: { scene.end(of: stranger) != nil }))
        #expect(scene.end(of: stranger) == .fingerprintMismatch)
        #expect(!scene.isPrepared(stranger))
        #expect(b.client.received.values.allSatisfy { $0.packetCount == 0 })
    }

    @Test("a client without a common SRTP profile ends as such")
    func profile() throws {
        let scene = try CallScene()
        var wishes = DTLSClientIdentity.Options()
        wishes.srtpProfiles = "SRTP_AES128_CM_SHA1_32"
        let client = scene.makeClient { $0.identity = DTLSClientIdentity(wishes) }
        let a = try scene.prepare(client, in: scene.makeRoom())
        #expect(scene.run(until: { scene.end(of: a) != nil }))
        #expect(scene.end(of: a) == .noSRTPProfile)
    }

    @Test("shutting down says goodbye to everybody")
    func shutDown() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let (c, _) = try scene.makePair(joined: false)
        scene.run(for: .seconds(1))
        scene.command(.shutDown)
        scene.run(for: .seconds(1))
        for participant in [a, b, c] { #expect(participant.client.phase == .closed) }
        #expect(scene.engine.transportCount == 0)
        #expect(scene.handshaker.count == 0)
    }

    @Test("the snapshot tells phases as they are")
    func snapshot() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.join(a)
        let c = try scene.prepare(scene.makeClient(), in: scene.makeRoom())
        let phases = scene.engine.snapshot().reduce(into: [:]) { $0[$1.participant] = $1.phase }
        #expect(phases == [a.handle: .joined, b.handle: .prepared, c.handle: .connecting])
    }

    @Test("commands for unknown participants and a second create change nothing")
    func unknownCommands() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let nobody = ParticipantHandle(42)
        scene.command(.join(nobody))
        scene.command(.remove(nobody))
        scene.command(
            .create(
                TransportConfiguration(
                    participant: a.handle, room: b.room, isPeerRoom: true, joinsWhenReady: false,
                    localICE: a.session.localICE, remoteICE: a.session.remoteICE,
                    fingerprints: a.session.fingerprints, sections: a.session.sections)))
        scene.run(for: .seconds(1))
        #expect(scene.engine.transportCount == 2)
        #expect(b.client.heard(.audio, from: a.client).count > 40)
    }

    @Test("a thousand transports come and go and leave nothing behind")
    func churn() throws {
        let scene = try CallScene()
        let identity = DTLSClientIdentity()
        for _ in 0..<1_000 {
            let client = scene.makeClient { $0.identity = identity }
            let participant = try scene.prepare(client, in: scene.makeRoom())
            client.vanish()
            scene.remove(participant)
        }
        scene.run(for: .seconds(1))
        #expect(scene.engine.transportCount == 0)
        #expect(scene.handshaker.count == 0)
        #expect(scene.engine.deadline == .distantFuture)
    }
}
