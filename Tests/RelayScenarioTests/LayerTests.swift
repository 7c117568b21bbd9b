import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Simulcast and temporal layers: who gets which stream, and that nobody sees a change.
@Suite("Layers") struct LayerTests {
    /// A sender of three streams of about 216, 432 and 1,080 kbit/s, and one who receives.
    struct Call {
        let scene: CallScene
        let sender: CallScene.Participant
        let receiver: CallScene.Participant

        init(
            seed: UInt64 = 1, kind: RoomKind = .group, temporalLayers: Int = 3,
            sender change: (inout SimulatedClient.Options) -> Void = { _ in },
            receiver changeReceiver: (inout SimulatedClient.Options) -> Void = { _ in }
        ) throws {
            scene = try CallScene(seed: seed)
            let room = scene.makeRoom()
            sender = try scene.prepare(
                scene.makeClient {
                    $0.streamIDs = ["q", "h", "f"]
                    $0.temporalLayerCount = temporalLayers
                    change(&$0)
                }, in: room, kind: kind, joins: true)
            receiver = try scene.prepare(scene.makeClient(changeReceiver), in: room, kind: kind, joins: true)
        }

        var stream: ReceivedStream {
            get throws { try #require(receiver.client.stream(.video)) }
        }
        var audit: LayerAudit { get throws { LayerAudit(try stream) } }

        /// Limits the way down to the receiver; nil: no limit.
        func narrow(_ rate: Double?) {
            var quality = VirtualNetwork.Quality.perfect
            quality.rate = rate
            scene.network.setQuality(quality, from: CallScene.relayAddress, to: receiver.client.address)
        }
    }

    /// Nothing of the switches shows: numbers, picture ids and times go on, every whole picture can be decoded.
    private func expectSeamless(_ audit: LayerAudit, _ location: SourceLocation = #_sourceLocation) {
        #expect(audit.missingCount == 0, sourceLocation: location)
        #expect(audit.pictureIDBreaks == 0, sourceLocation: location)
        #expect(audit.baseIndexBreaks == 0, sourceLocation: location)
        #expect(audit.timestampBreaks == 0, sourceLocation: location)
        #expect(audit.undecodableCount == 0, sourceLocation: location)
        #expect(audit.cutCount <= audit.switchCount, sourceLocation: location)
    }

    @Test(
        "a receiver with a wide path comes to the highest stream, over key frames only",
        arguments: [RoomKind.group, .peer])
    func up(kind: RoomKind) throws {
        let call = try Call(kind: kind)
        call.scene.run(for: .seconds(10))
        let audit = try call.audit
        expectSeamless(audit)
        #expect(audit.pictures.last?.stream == 2)
        #expect(audit.switchCount <= 2)
        #expect(audit.longestFreeze() <= .milliseconds(200), "\(audit.longestFreeze())")
        for (before, after) in zip(audit.pictures, audit.pictures.dropFirst()) where before.stream != after.stream {
            #expect(after.isKey)
        }
    }

    @Test("the picture starts with the first key frame: nobody waits for a choice")
    func start() throws {
        let call = try Call()
        call.scene.run(for: .seconds(2))
        let first = try #require(try call.audit.pictures.first)
        let connected = try #require(call.receiver.client.connectedAt)
        #expect(first.isKey)
        #expect(first.completeAt - connected < .milliseconds(250), "\(first.completeAt - connected)")
    }

    @Test("a path cut to 500 kbit/s gets a lower stream, and the higher one again when it is wide")
    func downAndUp() throws {
        let call = try Call()
        call.scene.run(for: .seconds(8))
        #expect(try call.audit.pictures.last?.stream == 2)
        call.narrow(500_000)
        call.scene.run(for: .seconds(10))
        #expect(try call.audit.pictures.last?.stream ?? 9 <= 1)
        call.narrow(nil)
        call.scene.run(for: .seconds(25))
        #expect(try call.audit.pictures.last?.stream == 2)
    }

    @Test("a stream that stops is left for a lower one within half a second, and taken again when it is back")
    func stall() throws {
        let call = try Call()
        call.scene.run(for: .seconds(8))
        call.sender.client.pause(stream: 2, true)
        call.scene.run(for: .seconds(3))
        let audit = try call.audit
        expectSeamless(audit)
        #expect(audit.pictures.last?.stream == 1)
        #expect(audit.longestFreeze() <= .milliseconds(500), "\(audit.longestFreeze())")
        call.sender.client.pause(stream: 2, false)
        call.scene.run(for: .seconds(5))
        expectSeamless(try call.audit)
        #expect(try call.audit.pictures.last?.stream == 2)
    }

    @Test("a path below the lowest stream loses upper temporal layers, whole pictures, without a gap")
    func temporal() throws {
        let call = try Call(sender: { $0.packetsPerStream = [4, 8, 16] })
        call.narrow(600_000)
        call.scene.run(for: .seconds(20))
        let tail = try call.audit.pictures.suffix(50)
        #expect(tail.allSatisfy { $0.stream == 0 && $0.temporalLayer < 2 })
        let stream = try call.stream
        let numbers = stream.sorted.suffix(100).map(\.sequence)
        #expect(stream.missingCount == 0 || numbers.last! - numbers.first! == 99)
    }

    @Test("a group's only stream loses its upper temporal layers where the path is narrow, and gets them back")
    func single() throws {
        let call = try Call(sender: {
            $0.streamIDs = []
            $0.packetsPerStream = [5]
        })
        call.scene.run(for: .seconds(4))
        #expect(try call.audit.pictures.suffix(40).contains { $0.temporalLayer == 2 })
        call.narrow(700_000)
        call.scene.run(for: .seconds(15))
        let narrowed = try call.audit.pictures.suffix(40)
        #expect(narrowed.allSatisfy { $0.temporalLayer < 2 && $0.isDecodable })
        // What is left out leaves no gap behind.
        for (before, after) in zip(narrowed, narrowed.dropFirst()) {
            #expect(after.pictureID == (before.pictureID + 1) & 0x7FFF)
        }
        call.narrow(nil)
        call.scene.run(for: .seconds(25))
        #expect(try call.audit.pictures.suffix(40).contains { $0.temporalLayer == 2 })
    }

    @Test("a key frame is asked of the stream that it is wished of, and not of the others")
    func keyFrames() throws {
        let call = try Call()
        call.scene.run(for: .seconds(8))
        let before = (0..<3).map { call.sender.client.keyFrameRequests(ofStream: $0) }
        for _ in 0..<5 {
            call.scene.act(call.receiver.client) { $0.requestKeyFrame() }
            call.scene.run(for: .milliseconds(50))
        }
        call.scene.run(for: .seconds(1))
        let asked = (0..<3).map { call.sender.client.keyFrameRequests(ofStream: $0) - before[$0] }
        #expect(asked[0] == 0 && asked[1] == 0)
        #expect((1...2).contains(asked[2]), "\(asked[2])")
    }

    @Test("loss on both legs is repaired in every stream: no picture is missed for long")
    func loss() throws {
        let call = try Call(seed: 5)
        call.scene.run(for: .seconds(3))
        call.scene.network.quality.loss = 0.03
        call.scene.run(for: .seconds(15))
        call.scene.network.quality.loss = 0
        call.scene.run(for: .seconds(3))
        let audit = try call.audit
        #expect(audit.timestampBreaks == 0)
        #expect(audit.longestFreeze() < .milliseconds(600), "\(audit.longestFreeze())")
        #expect(try call.stream.repairedCount > 5)
    }

    @Test("streams that nobody can use are not sent: the sender is told so, and told when they are wanted")
    func unneeded() throws {
        let call = try Call()
        call.narrow(400_000)
        call.scene.run(for: .seconds(20))
        #expect(call.sender.client.activeStreams.count < 3, "\(call.sender.client.bitrateLimit ?? 0)")
        call.narrow(nil)
        call.scene.run(for: .seconds(30))
        #expect(call.sender.client.activeStreams.count == 3)
        #expect(try call.audit.pictures.last?.stream == 2)
    }

    @Test("a stream that is paused is no gap of its sender's picture")
    func gaps() throws {
        let call = try Call()
        call.scene.run(for: .seconds(3))
        call.sender.client.pause(stream: 0, true)
        call.scene.run(for: .seconds(5))
        let told = call.scene.news.compactMap { news -> UInt32? in
            guard case .statistics(call.sender.handle, let statistics, _) = news else { return nil }
            return statistics.largestVideoGapMs
        }
        #expect(try #require(told.last) < 500, "\(told)")
    }

    @Test("a stream id that was not negotiated brings no source")
    func unknownID() throws {
        let call = try Call()
        call.scene.run(for: .seconds(1))
        let section = try #require(call.sender.client.sections.first { $0.kind == .video })
        var packet: [UInt8] = [0x90, section.payloadType, 0x10, 0, 0, 0, 0, 1, 9, 9, 9, 9, 0xBE, 0xDE, 0, 1]
        packet += [section.extensions[.rid] << 4, UInt8(ascii: "x"), 0, 0, 0x90, 0x80, 0x80, 1, 0x10, 2, 0]
        call.scene.act(call.sender.client) { $0.sendProtected(rtp: packet, headerByteCount: 20) }
        call.scene.run(for: .milliseconds(100))
        #expect(call.scene.engine.counters[.rtpUnknownStreamID] == 1)
    }
}
