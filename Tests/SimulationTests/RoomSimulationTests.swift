import Foundation
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Seeded rooms on a bad network. A failing seed is in the failure's text; run one alone with SIMULATION_SEED=n.
@Suite("Simulation") struct RoomSimulationTests {
    static let seeds: [UInt64] = {
        if let text = ProcessInfo.processInfo.environment["SIMULATION_SEED"], let seed = UInt64(text) { return [seed] }
        return Array(1...4)
    }()

    static func run(_ options: CallSimulation.Options) throws -> CallSimulation {
        let simulation = try CallSimulation(options)
        try simulation.run()
        #expect(simulation.violations.isEmpty, "seed \(options.seed): \(simulation.violations)")
        return simulation
    }

    @Test("rooms of people who come and go keep every promise", arguments: seeds)
    func rooms(seed: UInt64) throws {
        var options = CallSimulation.Options()
        options.seed = seed
        let simulation = try Self.run(options)
        #expect(simulation.deeds["come", default: 0] >= 5, "seed \(seed)")
        #expect(simulation.scene.engine.counters.packetsForwarded > 1_000, "seed \(seed)")
    }

    @Test("two people per room on a very bad network", arguments: seeds.map { $0 + 100 })
    func badNetwork(seed: UInt64) throws {
        var options = CallSimulation.Options()
        options.seed = seed
        options.peoplePerRoom = 2
        options.quality = .init(loss: 0.15, delay: .milliseconds(80), jitter: .milliseconds(40), reordering: 0.05)
        _ = try Self.run(options)
    }

    @Test("much coming and going in one room", arguments: seeds.map { $0 + 200 })
    func churn(seed: UInt64) throws {
        var options = CallSimulation.Options()
        options.seed = seed
        options.roomCount = 1
        options.peoplePerRoom = 4
        options.pace = .milliseconds(50)
        options.duration = .seconds(6)
        _ = try Self.run(options)
    }

    @Test("groups with fewer slots than people, who talk, pin, come and go", arguments: seeds.map { $0 + 300 })
    func groups(seed: UInt64) throws {
        var options = CallSimulation.Options()
        options.seed = seed
        options.roomCount = 1
        options.peoplePerRoom = 6
        options.slotCount = 2
        options.pace = .milliseconds(60)
        let simulation = try Self.run(options)
        #expect(simulation.deeds["talk", default: 0] > 20 && simulation.deeds["pin", default: 0] > 5, "seed \(seed)")
    }

    @Test("one seed gives one run")
    func deterministic() throws {
        var options = CallSimulation.Options()
        options.seed = 77
        options.duration = .seconds(4)
        let first = try Self.run(options)
        let second = try Self.run(options)
        #expect(first.scene.news == second.scene.news)
        #expect(first.deeds == second.deeds)
        #expect(first.scene.datagramsIn == second.scene.datagramsIn)
        #expect(first.scene.datagramsOut == second.scene.datagramsOut)
        options.seed = 78
        #expect(try Self.run(options).scene.news != first.scene.news)
    }
}
