import RTPCore
import RelayCore
import RelayTesting
import Testing

/// The test client held to the product's parts: its offers to the negotiator, its SRTP and RTCP to ours.
@Suite("Simulated client") struct SimulatedClientTests {
    static let relay = PeerAddress(ipv4: 0x0A00_0001, port: 3478)
    static let home = PeerAddress(ipv4: 0x0A00_0002, port: 5000)

    static func negotiate(
        _ client: SimulatedClient, codec: MediaCodec = .vp8, kind: RoomKind = .peer
    ) throws -> NegotiatedSession {
        var random = RandomSource.seeded(5)
        let endpoint = WorkerEndpoint(
            candidates: [.init(address: "10.0.0.1", port: 3478)], fingerprint: [UInt8](repeating: 7, count: 32))
        return try Negotiator.negotiate(
            offer: client.offer(),
            policy: NegotiationPolicy(kind: kind, media: .video, videoCodec: codec, grants: .standard),
            endpoint: endpoint, random: &random)
    }

    @Test("its offer is accepted in every dialect, with audio and video both ways", arguments: ClientDialect.allCases)
    func offers(dialect: ClientDialect) throws {
        var options = SimulatedClient.Options()
        options.dialect = dialect
        let client = SimulatedClient(options, address: Self.home)
        let session = try Self.negotiate(client)
        #expect(session.sections.map(\.kind) == [.audio, .video])
        #expect(session.sections.allSatisfy { $0.clientSends && $0.clientReceives })
        #expect(session.fingerprints == [client.dtls.identity.fingerprint()])
        try client.accept(answer: session.answer, now: Instant(nanoseconds: 0))
        #expect(client.relayAddress == Self.relay)
        #expect(client.remoteICE == session.localICE)
        for (mine, theirs) in zip(client.sections, session.sections) {
            #expect(mine.mid == theirs.mid)
            #expect(mine.payloadType == theirs.payloadType)
            #expect(mine.rtxPayloadType == theirs.rtxPayloadType)
            #expect(mine.relaySSRC == theirs.sendSSRC)
            #expect(mine.extensions == theirs.extensions)
            #expect(theirs.signalledSSRCs == [try #require(client.sendingSSRC(theirs.kind))])
        }
    }

    @Test("an H264 offer is accepted by an H264 room", arguments: ClientDialect.allCases)
    func h264(dialect: ClientDialect) throws {
        var options = SimulatedClient.Options()
        options.dialect = dialect
        options.videoCodec = .h264
        let session = try Self.negotiate(SimulatedClient(options, address: Self.home), codec: .h264)
        #expect(session.sections.last?.codec == .h264)
    }

    @Test("further slots only receive")
    func slots() throws {
        var options = SimulatedClient.Options()
        options.extraAudioSlots = 2
        options.extraVideoSlots = 2
        let session = try Self.negotiate(SimulatedClient(options, address: Self.home), kind: .group)
        #expect(session.sections.count == 6)
        #expect(session.sections.filter(\.clientSends).count == 2)
        #expect(session.sections.filter(\.clientReceives).count == 6)
    }

    @Test("its first datagram is a check that the relay's reader takes")
    func check() throws {
        let client = SimulatedClient(address: Self.home)
        let session = try Self.negotiate(client)
        try client.accept(answer: session.answer, now: Instant(nanoseconds: 0))
        let datagram = try #require(client.takeDatagrams().first)
        #expect(datagram.to == Self.relay && datagram.from == Self.home)
        let parsed = STUNMessage(datagram.bytes.span)
        let message = try #require(parsed)
        #expect(message.iceControlling != nil && message.priority != nil && message.hasFingerprint)
        #expect(!message.hasUseCandidate, "the first one does not nominate")
        #expect(client.deadline == Instant(nanoseconds: 100_000_000))
    }

    @Test("a stamp survives only unchanged")
    func stamps() {
        let payload = MediaStamp(sender: 9, number: 1 << 40).stamped([1, 2, 3])
        #expect(MediaStamp(readFrom: payload) == MediaStamp(sender: 9, number: 1 << 40))
        for index in payload.indices {
            var damaged = payload
            damaged[index] ^= 4
            #expect(MediaStamp(readFrom: damaged) == nil)
        }
        #expect(MediaStamp(readFrom: []) == nil)
        var counted = MediaStamp(sender: 9, number: 7).stamped([1, 2, 3], uncovered: 2)
        counted[1] = 9
        #expect(MediaStamp(readFrom: counted) == MediaStamp(sender: 9, number: 7), "that byte is not covered")
        counted[2] = 9
        #expect(MediaStamp(readFrom: counted) == nil)
    }

    @Test("RTCP that it writes it reads back")
    func rtcp() {
        let block = ReportBlock(
            ssrc: 1, fractionLost: 2, cumulativeLost: -3, extendedHighest: 4, jitter: 5, lastSenderReport: 6,
            delaySinceLastSenderReport: 7)
        let packets: [TestRTCP] = [
            .senderReport(ssrc: 1, ntp: 0x0102_0304_0506_0708, rtp: 2, packets: 3, octets: 4, blocks: [block]),
            .receiverReport(ssrc: 9, blocks: [block, block]), .sourceDescription(ssrc: 9, cname: "someone"),
            .nack(sender: 1, media: 2, numbers: [65_534, 65_535, 3, 40]), .pictureLoss(sender: 1, media: 2),
            .fullIntra(sender: 1, requests: [.init(ssrc: 2, number: 3)]), .goodbye([1, 2]),
        ]
        #expect(TestRTCP.read(packets.flatMap(\.bytes)) == packets)
        #expect(TestRTCP.read([0x80, 200, 0, 9]) == nil)
    }
}
