import RTPCore
import RelayCore
import RelayTesting
import Testing

/// A call as people have it: prepare, join, talk, leave.
@Suite("A call through the engine") struct CallTests {
    @Test("two clients prepare, join and hear and see each other")
    func twoClients() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(2))
        for (sender, receiver) in [(a, b), (b, a)] {
            let heard = receiver.client.heard(.audio, from: sender.client)
            #expect(heard.count >= 95)
            #expect(heard == Array(heard[0]..<heard[0] + UInt64(heard.count)), "complete and in order")
            #expect((receiver.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
            #expect(receiver.client.counters.unopenedRTP == 0)
            #expect(receiver.client.counters.unknownSSRC == 0)
        }
    }

    @Test("news come in order: prepared, joined, then media of each kind once")
    func newsInOrder() throws {
        let scene = try CallScene()
        let (a, _) = try scene.makePair()
        scene.run(for: .seconds(1))
        let words = scene.news(of: a).compactMap { news -> String? in
            switch news {
            case .prepared: "prepared"
            case .joined: "joined"
            case .media(_, let kind, _): "\(kind)"
            default: nil
            }
        }
        #expect(words.prefix(2) == ["prepared", "joined"])
        #expect(words.dropFirst(2).sorted() == ["audio", "video"])
    }

    @Test("a client is prepared within five one-way delays of its first check after two hello datagrams")
    func preparedSoon() throws {
        let scene = try CallScene()
        let begin = scene.now
        let a = try scene.prepare(scene.makeClient { $0.dialect = .firefox }, in: scene.makeRoom())
        #expect(scene.run(until: { scene.isPrepared(a) }))
        #expect(scene.now - begin <= .milliseconds(60))
    }

    @Test("nothing passes while nobody, or only one side, has joined", arguments: [false, true])
    func gate(oneJoined: Bool) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        if oneJoined { scene.join(a) }
        scene.run(for: .seconds(2))
        #expect(a.client.sentCount(.audio) > 90, "it is sending")
        for participant in [a, b] {
            #expect(participant.client.received.values.allSatisfy { $0.packetCount == 0 })
        }
        #expect(scene.engine.counters.packetsForwarded == 0)
    }

    @Test("what was sent before the gate opened never arrives")
    func gateHoldsNothingBack() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.run(for: .seconds(1))
        scene.join(a)
        let before = a.client.sentCount(.audio)
        scene.join(b)
        scene.run(for: .seconds(1))
        let first = try #require(b.client.heard(.audio, from: a.client).first)
        // What was under way at that moment may pass: one delay's worth.
        #expect(first + 1 >= before)
    }

    @Test("the first packet after the join is forwarded at once")
    func gateOpensAtOnce() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair(joined: false)
        scene.join(a)
        scene.run(for: .seconds(1))
        scene.join(b)
        let joined = scene.now
        scene.run(for: .milliseconds(60))
        let arrival = try #require(b.client.stream(.audio)?.packets.first?.arrivedAt)
        // At most one packet interval to the next packet and one delay to the receiver.
        #expect(arrival - joined <= .milliseconds(31))
    }

    @Test("a transport made joined opens its gate as soon as keys are in")
    func joinsWhenReady() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient(), in: room, joins: true)
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true)
        scene.run(for: .seconds(1))
        #expect(scene.isJoined(a) && scene.isJoined(b))
        #expect(b.client.heard(.audio, from: a.client).count > 30)
    }

    @Test("a join before the keys is remembered")
    func joinEarly() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient(), in: room)
        let b = try scene.prepare(scene.makeClient(), in: room)
        scene.join(a)
        scene.join(b)
        #expect(!scene.isJoined(a))
        scene.run(for: .seconds(1))
        #expect(scene.isJoined(a) && scene.isJoined(b))
        #expect(a.client.heard(.audio, from: b.client).count > 30)
    }

    @Test("rooms do not hear each other")
    func roomsApart() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        let (c, d) = try scene.makePair()
        scene.run(for: .seconds(1))
        for (here, there) in [(a, c), (a, d), (b, c), (b, d)] {
            #expect(here.client.heard(.audio, from: there.client).isEmpty)
            #expect(there.client.heard(.audio, from: here.client).isEmpty)
        }
        #expect(c.client.heard(.audio, from: d.client).count > 30)
    }

    struct Dialects: CustomStringConvertible {
        var first: ClientDialect
        var second: ClientDialect
        var description: String { "\(first)-\(second)" }
        static let all = ClientDialect.allCases.flatMap { first in
            ClientDialect.allCases.filter { $0.rawValue >= first.rawValue }.map { Dialects(first: first, second: $0) }
        }
    }

    @Test("every client understands every other", arguments: Dialects.all)
    func crossCalls(dialects: Dialects) throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let a = try scene.prepare(scene.makeClient { $0.dialect = dialects.first }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient { $0.dialect = dialects.second }, in: room, joins: true)
        scene.run(for: .seconds(2))
        for (sender, receiver) in [(a, b), (b, a)] {
            #expect(receiver.client.heard(.audio, from: sender.client).count >= 80)
            #expect((receiver.client.stream(.video)?.decodablePictures.count ?? 0) >= 35)
            for stream in receiver.client.received.values {
                let section = try #require(receiver.client.sections.first { $0.relaySSRC == stream.ssrc })
                #expect(stream.packets.allSatisfy { $0.payloadType == section.payloadType })
                let expected: String? = section.extensions[.mid] == 0 ? nil : section.mid
                #expect(stream.packets.allSatisfy { $0.mid == expected })
            }
        }
    }

    @Test("an H264 call works as a VP8 one does")
    func h264() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.videoCodec = .h264 }
        scene.run(for: .seconds(2))
        #expect((b.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
        #expect((a.client.stream(.video)?.decodablePictures.count ?? 0) >= 45)
    }

    @Test("a client with null tracks sends nothing until it puts them in")
    func nullTracks() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.sendsAtOnce = false }
        scene.run(for: .seconds(1))
        #expect(b.client.stream(.audio)?.packetCount == 0)
        scene.act(a.client) { $0.startMedia(now: scene.now) }
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).first == 0)
        #expect(b.client.stream(.video)?.decodablePictures.first?.isKey == true)
    }

    @Test("an audio call of clients without video carries audio")
    func audioOnly() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.hasVideo = false }
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).count > 40)
        #expect(a.client.counters.pictureLossRequests == 0)
    }

    @Test("a token without the right to send video forwards audio only")
    func grants() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        var grants = Grants.standard
        grants.publishVideo = false
        let a = try scene.prepare(scene.makeClient(), in: room, joins: true, grants: grants)
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true)
        scene.run(for: .seconds(1))
        #expect(b.client.heard(.audio, from: a.client).count > 30)
        #expect(b.client.stream(.video)?.packetCount == 0)
        #expect(a.client.heard(.video, from: b.client).count > 30)
    }
}
