import RTPCore
import RelayCore
import RelayTesting
import Testing

/// TCP connections as the engine sees them: one more kind of address, which may end.
@Suite("Paths over TCP") struct StreamPathTests {
    private let first = PeerAddress(high: 0, low: 0xFFFF_0A03_0001, port: 9_000, connection: 1)
    private let second = PeerAddress(high: 0, low: 0xFFFF_0A03_0001, port: 9_001, connection: 2)

    /// A call whose first side is on connection 1.
    private func call() throws -> (scene: CallScene, a: CallScene.Participant, b: CallScene.Participant) {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try [first, nil].map { address in
            let client = scene.makeClient()
            if let address { client.address(is: address) }
            return try scene.prepare(client, in: room, joins: true)
        }
        scene.run(for: .seconds(2))
        return (scene, people[0], people[1])
    }

    /// Whether both hear each other for the next second.
    private func talks(_ scene: CallScene, _ a: CallScene.Participant, _ b: CallScene.Participant) -> Bool {
        let before = (a.client.heard(.audio, from: b.client).count, b.client.heard(.audio, from: a.client).count)
        scene.run(for: .seconds(1))
        return a.client.heard(.audio, from: b.client).count >= before.0 + 45
            && b.client.heard(.audio, from: a.client).count >= before.1 + 45
    }

    /// The connection that `participant` is on ends, and nothing comes over it any more.
    private func end(_ connection: PeerAddress, _ scene: CallScene) {
        scene.network.loses = { from, to, _ in from == connection || to == connection }
        scene.engine.forget(connection)
    }

    @Test("a call over a connection is like any other, and the client is told its address")
    func plain() throws {
        let (scene, a, b) = try call()
        #expect(talks(scene, a, b))
        #expect(a.client.counters.relayChecks > 1 && a.client.counters.unauthenticRelayChecks == 0)
        let mapped = try #require(a.client.mappedAddress)
        #expect(mapped == PeerAddress(high: first.high, low: first.low, port: first.port))
        #expect(scene.engine.isKnown(first) && !scene.engine.isKnown(mapped))
    }

    @Test("media from the same address over UDP, or over another connection, is a stranger's")
    func otherConnection() throws {
        let (scene, a, _) = try call()
        var copy: [UInt8] = []
        scene.network.loses = { from, _, bytes in
            if from == first, bytes[0] & 0xC0 == 0x80 { copy = bytes }
            return false
        }
        scene.run(for: .seconds(1))
        let before = scene.engine.counters[.rtpUnknownAddress]
        for connection: UInt16 in [0, 2] {
            var other = first
            other.connection = connection
            scene.inject(copy, from: other)
        }
        scene.run(for: .milliseconds(100))
        #expect(scene.engine.counters[.rtpUnknownAddress] == before + 2)
        #expect(scene.end(of: a) == nil)
    }

    @Test("nothing is sent to a connection that is gone; over the next one the call goes on at once")
    func nextConnection() throws {
        let (scene, a, b) = try call()
        end(first, scene)
        var sent: [PeerAddress] = []
        scene.onTransmit = { _, to in sent.append(to) }
        let before = scene.engine.counters[.sendWithoutPath]
        scene.run(for: .seconds(1))
        #expect(!sent.isEmpty && sent.allSatisfy { $0 == b.client.address })
        #expect(scene.engine.counters[.sendWithoutPath] > before + 45)
        scene.move(a, to: second)
        scene.run(for: .milliseconds(50))
        #expect(talks(scene, a, b))
        #expect(scene.interruptions(of: a) == 0 && scene.handshaker.counters.established == 2)
    }

    @Test("without a connection a client comes back over UDP, by a check or an ICE restart", arguments: [false, true])
    func backToUDP(restarts: Bool) throws {
        let (scene, a, b) = try call()
        end(first, scene)
        scene.run(for: .seconds(6))
        #expect(scene.interruptions(of: a) == 1)
        if restarts {
            scene.restartICE(a, to: PathTests.elsewhere)
        } else {
            scene.move(a, to: PathTests.elsewhere)
        }
        scene.run(for: .milliseconds(500))
        #expect(talks(scene, a, b))
        #expect(scene.end(of: a) == nil)
    }

    @Test("a check that is replayed from elsewhere draws no media while the client is without a path")
    func replayedCheck() throws {
        let (scene, a, _) = try call()
        let check = a.client.makeCheck().bytes
        end(first, scene)
        for step in 0..<10 {
            scene.schedule(after: .milliseconds(Int64(100 * step))) { scene.inject(check, from: PathTests.elsewhere) }
        }
        scene.run(for: .seconds(2))
        let strays = scene.strays[PathTests.elsewhere] ?? []
        #expect(!strays.isEmpty, "the check is authentic, so it is answered")
        #expect(strays.allSatisfy { $0[0] < 4 }, "by STUN and nothing else")
    }

    @Test("a session without a path is lost by its time, and a goodbye without a path is sent to nobody")
    func lost() throws {
        let (scene, a, b) = try call()
        end(first, scene)
        scene.run(for: .seconds(31))
        #expect(scene.end(of: a) == .lost)
        let (again, c, d) = try call()
        end(first, again)
        var sent: [PeerAddress] = []
        again.onTransmit = { _, to in sent.append(to) }
        again.remove(c)
        again.run(for: .seconds(1))
        #expect(sent.allSatisfy { $0 == d.client.address })
        #expect(scene.end(of: b) == nil)
    }
}
