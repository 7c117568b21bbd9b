import RTPCore
import RelayTesting
import Testing

@testable import RelayCore

/// Case D04 and the budgets of T33.
@Suite("DTLS: ends and budgets") struct HandshakeEndTests {
    @Test("the client's close_notify ends the association at once")
    func clientCloses() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let said = scene.now
        scene.client.close()
        scene.collect()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .closed)
        #expect(scene.now - said == scene.delay)
        #expect(scene.handshaker.count == 0)
        #expect(scene.handshaker.counters.closedByPeer == 1)
    }

    @Test("our close_notify reaches the client and leaves nothing behind")
    func relayCloses() throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.handshaker.receive(.close(scene.handle), now: scene.now)
        scene.collect()
        #expect(scene.handshaker.count == 0)
        scene.run(for: .seconds(1))
        #expect(scene.client.state == .closed)
        #expect(scene.end == nil, "the engine knows that it closed")
    }

    @Test("closing twice, or somebody unknown, is nothing")
    func closingTwice() throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.handshaker.receive(.close(scene.handle), now: scene.now)
        _ = scene.handshaker.takeResults()
        scene.handshaker.receive(.close(scene.handle), now: scene.now)
        scene.handshaker.receive(.close(ParticipantHandle(1)), now: scene.now)
        #expect(scene.handshaker.takeResults().isEmpty)
    }

    @Test("closing an unfinished handshake sends nothing and frees its place")
    func closingEarly() throws {
        let scene = try HandshakeScene()
        scene.start()
        scene.run(until: { scene.handshaker.inFlightCount == 1 })
        scene.handshaker.receive(.close(scene.handle), now: scene.now)
        #expect(scene.handshaker.takeResults().isEmpty)
        #expect(scene.handshaker.inFlightCount == 0)
        #expect(scene.handshaker.count == 0)
    }

    @Test("a close_notify with one flipped bit is ignored", arguments: [14, 20, 22, 38])
    func tamperedAlert(byte: Int) throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.client.close()
        var alert = try #require(scene.client.takeDatagrams().first)
        try #require(alert[0] == 21 && alert.count == 39)
        alert[byte] ^= 1
        scene.inject(alert)
        #expect(scene.end == nil)
        #expect(scene.handshaker.count == 1)
    }

    @Test(
        "a plaintext close_notify or fatal alert after the handshake is ignored",
        arguments: [
            [UInt8](arrayLiteral: 1, 0), [2, 40],
        ])
    func forgedAlert(body: [UInt8]) throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.inject([21, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 99, 0, 2] + body)
        scene.run(for: .seconds(5))
        #expect(scene.end == nil)
    }

    @Test("another association's close_notify means nothing here")
    func foreignAlert() throws {
        let scene = try HandshakeScene()
        let other = try HandshakeScene()
        scene.connect()
        other.connect()
        other.client.close()
        scene.inject(try #require(other.client.takeDatagrams().first))
        #expect(scene.end == nil)
    }

    @Test("records after the end are nobody's")
    func afterTheEnd() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let hello = try #require(scene.sent[.toRelay]?.first)
        scene.client.close()
        scene.collect()
        scene.run(until: { scene.end != nil })
        scene.inject(hello)
        #expect(scene.handshaker.counters.droppedUnknownParticipant == 1)
        #expect(scene.handshaker.inFlightCount == 0)
    }

    @Test("a handshake takes in 64 datagrams, no more")
    func datagramBudget() throws {
        let scene = try HandshakeScene()
        let body = postQuantumHelloBody(versions: [0xFEFD])
        for number in 0..<80 { scene.inject(helloRecord(body, 0..<50, number: UInt8(number))) }
        #expect(scene.handshaker.counters.droppedOverBudget == 16)
    }

    @Test("a handshake takes in 64 KB, no more")
    func byteBudget() throws {
        let scene = try HandshakeScene()
        let body = [UInt8](repeating: 1, count: 15_000)
        for number in 0..<60 { scene.inject(helloRecord(body, 100..<1_400, number: UInt8(number))) }
        // 1,325 bytes each: the 49th is the last that fits.
        #expect(scene.handshaker.counters.droppedOverBudget == 11)
    }

    @Test("junk ahead of the hello does not use up the budget")
    func junkIsFree() throws {
        let scene = try HandshakeScene()
        for _ in 0..<500 { scene.inject([20, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]) }
        scene.connect()
        #expect(scene.keysAgree)
    }

    @Test("an established association takes in 64 datagrams in ten seconds, then hears again")
    func establishedBudget() throws {
        let scene = try HandshakeScene()
        scene.connect()
        for _ in 0..<100 { scene.inject([23, 0xFE, 0xFD, 0, 1, 0, 0, 0, 0, 0, 99, 0, 4, 1, 2, 3, 4]) }
        #expect(scene.handshaker.counters.droppedOverBudget == 36)
        scene.run(for: .seconds(10))
        scene.client.close()
        scene.collect()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .closed)
    }

    @Test("handshakes beyond the cap wait for room and then connect")
    func inFlightCap() throws {
        var limits = HandshakeLimits()
        limits.inFlight = 2
        let scene = try HandshakeScene(limits: limits)
        let body = postQuantumHelloBody(versions: [0xFEFD])
        for value in [UInt64(101), 102] {
            scene.handshaker.receive(.begin(ParticipantHandle(value), fingerprints: []), now: scene.now)
            let hello = helloRecord(body, 0..<body.count, number: 0)
            scene.handshaker.receive(.records(ParticipantHandle(value), hello), now: scene.now)
        }
        _ = scene.handshaker.takeResults()
        scene.start()
        scene.run(for: .milliseconds(100))
        #expect(scene.handshaker.counters.droppedAtCapacity == 1)
        scene.handshaker.receive(.close(ParticipantHandle(101)), now: scene.now)
        scene.run(until: { scene.isUp })
        #expect(scene.keysAgree)
    }

    @Test("two thousand half-open handshakes are all gone after ten seconds")
    func halfOpen() throws {
        let handshaker = Handshaker(identity: try DTLSIdentity())
        let begin = Instant(nanoseconds: 0)
        let body = [UInt8](repeating: 1, count: 15_000)
        for value in 1...2_001 {
            let handle = ParticipantHandle(UInt64(value))
            handshaker.receive(.begin(handle, fingerprints: []), now: begin)
            handshaker.receive(.records(handle, helloRecord(body, 0..<1_000, number: 0)), now: begin)
        }
        #expect(handshaker.inFlightCount == 2_000)
        #expect(handshaker.counters.droppedAtCapacity == 1)
        #expect(handshaker.deadline == begin + .seconds(10))
        handshaker.advance(to: begin + .seconds(10))
        #expect(handshaker.inFlightCount == 0)
        #expect(handshaker.count == 1)
        #expect(handshaker.deadline == .distantFuture)
        let ends = handshaker.takeResults()
        #expect(ends.count == 2_000)
        #expect(ends.first == .ended(ParticipantHandle(1), .handshakeFailed))
    }

    @Test("keys never show in a description")
    func redacted() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let keys = try #require(scene.relayKeys)
        #expect("\(keys)" == "SRTPKeys(aeadAES128GCM, redacted)")
        let known = SRTPKeys(
            profile: .aeadAES128GCM, receiveKey: [171, 171], receiveSalt: [171], sendKey: [171], sendSalt: [171])
        var text = ""
        dump(HandshakeResult.established(ParticipantHandle(1), known), to: &text)
        #expect(text.contains("redacted") && !text.contains("171"))
    }

    @Test("keys are zero once nobody has them any more")
    func wiped() {
        let material = SRTPMaterial([[1, 2, 3], [4], [5, 6], []])
        material.wipe()
        #expect(material.parts == [[0, 0, 0], [0], [0, 0], []])
    }
}

/// What stays of an association when its SSL object is gone, held to OpenSSL as the client.
@Suite("DTLS after the handshake") struct HandshakeRemnantTests {
    @Test("a client's message after the handshake other than Finished and alerts is not answered")
    func applicationData() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let count = scene.sent[.toClient]?.count
        scene.client.sendApplicationData([1, 2, 3])
        scene.collect()
        scene.run(for: .seconds(1))
        #expect(scene.sent[.toClient]?.count == count)
        #expect(scene.end == nil)
    }

    @Test("a client's Finished that comes again byte by byte repeats our flight once at most")
    func replayedFinished() throws {
        let scene = try HandshakeScene()
        scene.connect()
        let count = scene.sent[.toClient]?.count ?? 0
        let last = try #require(scene.sent[.toRelay]?.last)
        for _ in 0..<10 { scene.inject(last) }
        let repeated = Array(scene.sent[.toClient]?.dropFirst(count) ?? [])
        #expect(repeated.count <= 1)
        #expect(repeated.allSatisfy { $0.count < last.count }, "no amplification")
        #expect(scene.client.state == .established)
    }

    @Test("the goodbye of a client whose last flight was repeated is understood")
    func closeAfterRepeat() throws {
        let scene = try HandshakeScene()
        var lost = 0
        scene.loses = { direction, _, bytes in
            guard direction == .toClient, bytes[0] == 20, lost < 2 else { return false }
            lost += 1
            return true
        }
        scene.connect()
        scene.client.close()
        scene.collect()
        scene.run(until: { scene.end != nil })
        #expect(scene.end == .closed)
    }

    @Test("a goodbye that comes twice, or with junk before it, ends the association once")
    func closeTwice() throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.client.close()
        let alert = try #require(scene.client.takeDatagrams().first)
        scene.inject([23, 0xFE, 0xFD, 0, 1, 0, 0, 0, 0, 9, 9, 0, 1, 0] + alert)
        #expect(scene.end == .closed)
        scene.inject(alert)
        #expect(scene.handshaker.counters.closedByPeer == 1)
    }

    @Test("every truncation of a goodbye is ignored")
    func truncated() throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.client.close()
        let alert = try #require(scene.client.takeDatagrams().first)
        for count in 0..<alert.count {
            var cut = Array(alert.prefix(count))
            if count > 13 { cut[12] = UInt8(count - 13) }
            scene.inject(cut)
        }
        #expect(scene.end == nil)
        scene.inject(alert)
        #expect(scene.end == .closed)
    }

    @Test("both sides may say goodbye at once")
    func bothClose() throws {
        let scene = try HandshakeScene()
        scene.connect()
        scene.client.close()
        scene.collect()
        scene.handshaker.receive(.close(scene.handle), now: scene.now)
        scene.collect()
        scene.run(for: .seconds(1))
        #expect(scene.end == nil)
        #expect(scene.handshaker.count == 0)
    }
}
