import Foundation
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Seeded calls whose receiver changes streams all the time. `LAYER_SEEDS=n` runs so many of each kind instead of a few.
@Suite("Simulations of layers") struct LayerSimulationTests {
    static let seeds = 1...(ProcessInfo.processInfo.environment["LAYER_SEEDS"].flatMap { UInt64($0) } ?? 12)
    private static let heights: [UInt16] = [0, 120, 180, 360, 720]

    /// A call of three streams, with a random number of temporal layers.
    private struct Call {
        let scene: CallScene
        let sender: CallScene.Participant
        let receiver: CallScene.Participant
        var random: RandomSource

        init(seed: UInt64) throws {
            random = .seeded(seed)
            let temporalLayers = Int.random(in: 1...3, using: &random)
            scene = try CallScene(seed: seed)
            let room = scene.makeRoom()
            sender = try scene.prepare(
                scene.makeClient {
                    $0.streamIDs = ["q", "h", "f"]
                    $0.temporalLayerCount = temporalLayers
                    $0.videoPayloadByteCount = 400
                    $0.packetsPerStream = [1, 2, 4]
                    $0.audioInterval = .milliseconds(60)
                }, in: room, kind: .group, joins: true)
            receiver = try scene.prepare(
                scene.makeClient { $0.audioInterval = .milliseconds(60) }, in: room, kind: .group, joins: true)
        }

        func wish(_ height: UInt16) {
            let slots = receiver.session.sections.enumerated().filter { $0.element.kind == .video }
            let wishes = slots.map { SlotWish(section: UInt8($0.offset), wantedHeight: height) }
            scene.command(.slots(receiver.handle, wishes))
        }

        var audit: LayerAudit { get throws { LayerAudit(try #require(receiver.client.stream(.video))) } }
    }

    @Test("wishes and streams that stop change the stream, and no receiver sees it", arguments: seeds)
    func seamless(seed: UInt64) throws {
        var call = try Call(seed: seed)
        call.scene.network.quality.jitter = .milliseconds(Int64.random(in: 0...8, using: &call.random))
        for _ in 0..<8 {
            call.wish(LayerSimulationTests.heights.randomElement(using: &call.random) ?? 0)
            let stream = Int.random(in: 1...2, using: &call.random)
            if Int.random(in: 0...3, using: &call.random) == 0 { call.sender.client.pause(stream: stream, true) }
            call.scene.run(for: .milliseconds(Int64.random(in: 100...1_200, using: &call.random)))
            call.sender.client.pause(stream: stream, false)
        }
        call.wish(180)
        call.scene.run(for: .seconds(2))
        let audit = try call.audit
        #expect(audit.missingCount == 0)
        #expect(audit.pictureIDBreaks == 0 && audit.baseIndexBreaks == 0 && audit.timestampBreaks == 0)
        #expect(audit.undecodableCount == 0)
        #expect(audit.cutCount <= audit.switchCount)
        #expect(audit.longestFreeze() <= .milliseconds(700), "\(audit.longestFreeze())")
        #expect(audit.pictures.last?.stream == 0, "what is wished for comes")
    }

    @Test("whatever the path does, the picture goes on, and layers change no more often than bounded", arguments: seeds)
    func anyPath(seed: UInt64) throws {
        var call = try Call(seed: seed)
        for _ in 0..<6 {
            var quality = VirtualNetwork.Quality.perfect
            quality.rate = [nil, 150_000, 300_000, 600_000, 1_500_000].randomElement(using: &call.random) ?? nil
            quality.loss = [0, 0, 0.01, 0.03].randomElement(using: &call.random) ?? 0
            quality.jitter = .milliseconds(Int64.random(in: 0...10, using: &call.random))
            call.scene.network.setQuality(
                quality, from: CallScene.relayAddress, to: call.receiver.client.address)
            call.scene.run(for: .milliseconds(Int64.random(in: 500...3_000, using: &call.random)))
        }
        call.scene.network.setQuality(nil, from: CallScene.relayAddress, to: call.receiver.client.address)
        call.scene.run(for: .seconds(3))
        let audit = try call.audit
        #expect(audit.timestampBreaks == 0)
        #expect(audit.longestFreeze() <= .seconds(4), "\(audit.longestFreeze())")
        let last = try #require(audit.decodable.last)
        #expect(call.scene.now - last.completeAt < .milliseconds(300), "it goes on at the end")
        let streams = audit.pictures.map(\.stream)
        let changes = zip(streams, streams.dropFirst()).filter { $0 != $1 }
        let turns = zip(changes, changes.dropFirst()).count { $0.1 > $0.0 && $1.1 < $1.0 }
        #expect(turns <= LayerChoice.turnBound, "\(changes.map(\.1))")
    }
}
