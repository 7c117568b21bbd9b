import Foundation
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Seeded calls over ways that lose at random: how much of the sound can be played. `RED_SEEDS=n` runs so many of each kind.
@Suite("Simulations of redundant sound") struct RedundancySimulationTests {
    static let seeds = 1...(ProcessInfo.processInfo.environment["RED_SEEDS"].flatMap { UInt64($0) } ?? 4)
    static let seconds = 40

    private struct Call {
        let scene: CallScene
        let sender: CallScene.Participant
        let receiver: CallScene.Participant

        /// - Parameter up: the same is lost on the sender's way.
        init(seed: UInt64, loss: Double, up: Bool = false, senderHasRED: Bool, receiverHasRED: Bool) throws {
            scene = try CallScene(seed: seed)
            let room = scene.makeRoom()
            sender = try scene.prepare(
                scene.makeClient {
                    $0.hasVideo = false
                    $0.offersRED = senderHasRED
                }, in: room, joins: true)
            receiver = try scene.prepare(
                scene.makeClient {
                    $0.hasVideo = false
                    $0.offersRED = receiverHasRED
                }, in: room, joins: true)
            scene.run(for: .seconds(2))
            let quality = VirtualNetwork.Quality(loss: loss, delay: .milliseconds(25), jitter: .milliseconds(5))
            scene.network.setQuality(quality, from: CallScene.relayAddress, to: receiver.client.address)
            if up { scene.network.setQuality(quality, from: sender.client.address, to: CallScene.relayAddress) }
        }

        /// The share of `seconds` of sound that never came, by itself or repeated, after `settle` for reports to act.
        func concealed(settle: Interval) -> Double {
            scene.run(for: settle)
            let first = sender.client.sentCount(.audio)
            scene.run(for: .seconds(Int64(RedundancySimulationTests.seconds)))
            let end = sender.client.sentCount(.audio)
            scene.run(for: .seconds(1))
            let audible = receiver.client.audible(from: sender.client).count { (first..<end).contains($0) }
            return 1 - Double(audible) / Double(end - first)
        }
    }

    @Test("at 5 and 10 % the relay's RED leaves less than a quarter of what is lost without it", arguments: seeds)
    func added(seed: UInt64) throws {
        for loss in [0.05, 0.1] {
            let plain = try Call(seed: seed, loss: loss, senderHasRED: false, receiverHasRED: false)
            let redundant = try Call(seed: seed, loss: loss, senderHasRED: false, receiverHasRED: true)
            let without = plain.concealed(settle: .seconds(6))
            let with = redundant.concealed(settle: .seconds(6))
            #expect(abs(without - loss) < 0.025, "seed \(seed): \(without)")
            #expect(with < 0.25 * without, "seed \(seed), loss \(loss): \(with) with, \(without) without")
            #expect(with < 0.01, "seed \(seed), loss \(loss): \(with)")
            #expect(redundant.receiver.client.counters.malformedRED == 0)
        }
    }

    @Test("at 5 % on both legs less than 1 % is concealed where both have RED, from the first second on")
    func bothLegs() throws {
        let shares = try Self.seeds.map { seed in
            let call = try Call(seed: seed, loss: 0.05, up: true, senderHasRED: true, receiverHasRED: true)
            return call.concealed(settle: .zero)
        }
        let mean = shares.reduce(0, +) / Double(shares.count)
        #expect(mean < 0.01, "\(shares)")
        // One call is 2,000 packets: chance alone moves it by a third.
        #expect(shares.allSatisfy { $0 < 0.016 }, "\(shares)")
        #expect(mean > 0.001, "nothing was lost: \(shares)")
    }

    @Test(
        "at 5 % on the sender's leg a receiver without RED misses less than 1 %: the relay takes it out",
        arguments: seeds)
    func stripped(seed: UInt64) throws {
        let call = try Call(seed: seed, loss: 0, up: true, senderHasRED: true, receiverHasRED: false)
        call.scene.network.setQuality(
            .init(loss: 0.05, delay: .milliseconds(25)), from: call.sender.client.address, to: CallScene.relayAddress)
        let share = call.concealed(settle: .zero)
        #expect(share < 0.01, "seed \(seed): \(share)")
        #expect(call.receiver.client.stream(.audio)?.duplicateCount == 0)
    }
}
