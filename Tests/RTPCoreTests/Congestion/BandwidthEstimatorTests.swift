import Foundation
import RTPCore
import Testing

/// The estimator on a simulated bottleneck. Rates in bits per second, times in seconds.
@Suite struct BandwidthEstimatorTests {
    private func run(
        _ path: PathSimulation.Path, most: Double = 2_500_000, seconds: Int, seed: UInt64 = 1,
        _ check: (PathSimulation.Flow) -> Void
    ) {
        var simulation = PathSimulation(path: path, most: [most], seed: seed)
        defer { simulation.destroy() }
        simulation.run(seconds: seconds)
        check(simulation.flows[0])
    }

    @Test("a path of 1 Mbit/s is used to 80 % with a short queue")
    func steadyPath() {
        run(.init(), seconds: 30) { flow in
            let arrived = flow.arrived(from: 10, to: 30)
            #expect(arrived > 800_000 && arrived < 1_010_000)
            #expect(flow.longestQueue(from: 5, to: 30) < .milliseconds(150))
        }
    }

    @Test("a cut from 3 Mbit/s to 400 kbit/s is followed within 3 s and its end within 10 s")
    func cutAndBack() {
        let capacity = [
            (from: Interval.zero, rate: 3e6), (from: Interval.seconds(20), rate: 4e5), (.seconds(40), 3e6),
        ]
        for seed in 1...5 {
            run(.init(capacity: capacity), seconds: 60, seed: UInt64(seed)) { flow in
                #expect(flow.sent(from: 10, to: 20) > 2_300_000)
                let after = flow.sent(from: 23, to: 26)
                #expect(after < 480_000, "seed \(seed): \(after) three seconds after the cut")
                #expect(flow.arrived(from: 30, to: 40) > 300_000)
                let back = flow.sent(from: 50, to: 60)
                #expect(back > 2_000_000, "seed \(seed): \(back) ten seconds after its end")
            }
        }
    }

    @Test("a browser held to a cut path uses four fifths of it from 3 s on and no more than it carries")
    func cutBrowser() {
        let count = Int(ProcessInfo.processInfo.environment["SEEDS"] ?? "") ?? 20
        var mean = 0.0
        for seed in 1...count {
            var path = PathSimulation.Path(
                capacity: [(.zero, 3e6), (.seconds(10), 4e5), (.seconds(25), 3e6)])
            path.reports = 20_000
            var simulation = PathSimulation(path: path, most: [2_000_000], seed: UInt64(seed))
            defer { simulation.destroy() }
            simulation.flows[0].browser = .init()
            simulation.run(seconds: 45)
            let flow = simulation.flows[0]
            let used = flow.used(from: 13, to: 25)
            mean += used / Double(count)
            #expect(used > 300_000 && used < 400_000, "seed \(seed): \(used)")
            // What it swings between: the deepest cut, and a little above what passes.
            let targets = flow.samples.filter { $0.time >= .seconds(13) && $0.time < .seconds(25) }.map(\.target)
            #expect(targets.filter { $0 < 266_000 || $0 > 430_000 }.count * 20 < targets.count, "seed \(seed)")
            #expect(flow.used(from: 40, to: 45) > 1_600_000, "seed \(seed): 15 s after the end")
        }
        #expect(mean > 330_000, "\(mean)")
    }

    @Test("a queue that overflows is not taken for less than what comes out of it", arguments: [30, 60, 100, 300])
    func overflow(queue: Int64) {
        for seed in 1...5 {
            let capacity = [(from: Interval.zero, rate: 3e6), (from: Interval.seconds(10), rate: 4e5)]
            run(.init(capacity: capacity, queue: .milliseconds(queue)), seconds: 30, seed: UInt64(seed)) { flow in
                let least = flow.samples.filter { $0.time > .seconds(10) }.map(\.target).min() ?? 0
                #expect(least > 270_000, "seed \(seed): \(least)")
                #expect(flow.sent(from: 13, to: 30) > 320_000, "seed \(seed)")
            }
        }
    }

    @Test("a start at 300 kbit/s finds a free path within 3 s by probes")
    func start() {
        run(.init(capacity: [(.zero, 10e6)]), seconds: 6) { flow in
            #expect(flow.sent(from: 3, to: 6) > 2_000_000)
            #expect(flow.probeCount >= 1)
        }
    }

    @Test("5 % random loss on a wide path limits nothing")
    func randomLoss() {
        run(.init(capacity: [(.zero, 5e6)], loss: 0.05), most: 1_500_000, seconds: 20) { flow in
            #expect(flow.target(from: 5, to: 20) > 1_500_000)
        }
    }

    @Test("what arrives without a queue is known to pass: a detour of 25 ms costs a free source no more than a fifth")
    func detour() {
        for seed in 1...5 {
            let path = PathSimulation.Path(
                capacity: [(.zero, 10e6)], detour: (from: .seconds(4), by: .milliseconds(25)))
            var simulation = PathSimulation(path: path, most: [2_000_000], seed: UInt64(seed))
            defer { simulation.destroy() }
            simulation.flows[0].isFree = true
            simulation.run(seconds: 8)
            let least = simulation.flows[0].samples.filter { $0.time >= .seconds(3) }.map(\.target).min() ?? 0
            #expect(least > 1_600_000, "seed \(seed): \(least)")
        }
    }

    @Test("one packet in twenty lost by chance is not taken for a limit, however few packets there are")
    func thinAndLossy() {
        var limited = 0
        for seed in 1...20 {
            run(.init(capacity: [(.zero, 5e6)], loss: 0.05), most: 250_000, seconds: 30, seed: UInt64(seed)) { flow in
                limited += flow.samples.filter(\.isLimitedByLoss).count
            }
        }
        #expect(limited < 20 * 300 / 50, "\(limited) of 6000 tenths of a second")
    }

    @Test("a policer that keeps no queue is a limit within 2 s")
    func policer() {
        for seed in 1...5 {
            let path = PathSimulation.Path(
                capacity: [(.zero, 10e6), (.seconds(5), 500_000)], queue: .milliseconds(5))
            var simulation = PathSimulation(path: path, most: [2_000_000], seed: UInt64(seed))
            defer { simulation.destroy() }
            simulation.flows[0].isFree = true
            simulation.run(seconds: 8)
            #expect(simulation.flows[0].target(from: 7, to: 8) < 1_000_000, "seed \(seed)")
        }
    }

    @Test("a path that loses 15 % of everything does not starve")
    func lossyPath() {
        run(.init(capacity: [(.zero, 5e6)], loss: 0.15), most: 1_500_000, seconds: 40) { flow in
            #expect(flow.target(from: 20, to: 40) > 300_000)
        }
    }

    @Test("20 ms of jitter are no queue")
    func jitter() {
        run(.init(capacity: [(.zero, 5e6)], jitter: .milliseconds(20)), most: 1_500_000, seconds: 15) { flow in
            #expect(flow.target(from: 8, to: 15) > 1_500_000)
        }
    }

    @Test("two flows share a path without starving either")
    func fairness() {
        for seed in 1...3 {
            var simulation = PathSimulation(
                path: .init(capacity: [(.zero, 2e6)]), most: [2_500_000, 2_500_000], starts: [.zero, .seconds(10)],
                seed: UInt64(seed))
            defer { simulation.destroy() }
            simulation.run(seconds: 60)
            let shares = simulation.flows.map { $0.arrived(from: 20, to: 60) }
            #expect(shares.reduce(0, +) > 1_400_000, "seed \(seed): \(shares)")
            #expect(shares.min()! * 4 > shares.max()!, "seed \(seed): \(shares)")
        }
    }

    @Test("whatever the path, the estimate neither stalls nor runs over")
    func manyPaths() {
        let count = Int(ProcessInfo.processInfo.environment["SEEDS"] ?? "") ?? 40
        for seed in 1...count {
            var random = RandomSource.seeded(UInt64(seed))
            let capacity = Double(Int.random(in: 200...4_000, using: &random)) * 1_000
            let path = PathSimulation.Path(
                capacity: [(.zero, capacity)], oneWay: .milliseconds(.random(in: 2...150, using: &random)),
                queue: .milliseconds(.random(in: 100...1_000, using: &random)),
                loss: Double(Int.random(in: 0...5, using: &random)) / 100,
                jitter: .milliseconds(.random(in: 0...15, using: &random)))
            run(path, seconds: 30, seed: UInt64(seed)) { flow in
                let usable = min(capacity, 2_500_000)
                let sent = flow.sent(from: 15, to: 30)
                #expect(sent > usable * 0.4, "seed \(seed): \(sent) of \(usable)")
                #expect(sent < usable * 1.15 + 100_000, "seed \(seed): \(sent) of \(usable)")
            }
        }
    }

    @Test("without feedback the estimate fades, and it comes back")
    func silence() {
        var estimator = BandwidthEstimator.create()
        defer { estimator.destroy() }
        var recorder = TransportFeedbackRecorder.create()
        defer { recorder.destroy() }
        var now = Instant(nanoseconds: 1_000_000_000)
        func hear() {
            let bytes = [UInt8](capacity: 1_100) { output in
                _ = recorder.appendFeedback(to: &output, senderSSRC: 1, mediaSSRC: 2)
            }
            var cursor = RTCPCursor(bytes.span)
            let feedback = TransportFeedback(cursor.next(in: bytes.span)!, in: bytes.span)!
            estimator.receive(feedback, in: bytes.span, now: now)
        }
        recorder.record(estimator.sent(byteCount: 1_000, at: now), arrival: now)
        hear()
        let before = estimator.target
        for _ in 0..<20 {
            now += .milliseconds(100)
            _ = estimator.sent(byteCount: 1_000, at: now)
            estimator.advance(to: now)
        }
        #expect(estimator.target < before * 7 / 10)
        #expect(estimator.target >= 50_000)
        recorder.record(estimator.sent(byteCount: 1_000, at: now), arrival: now)
        hear()
        let after = estimator.target
        estimator.advance(to: now + .milliseconds(900))
        #expect(estimator.target == after)
    }

    @Test("feedback on numbers that were never sent changes nothing")
    func foreignFeedback() {
        var estimator = BandwidthEstimator.create()
        defer { estimator.destroy() }
        var recorder = TransportFeedbackRecorder.create()
        defer { recorder.destroy() }
        let now = Instant(nanoseconds: 1_000_000_000)
        for number in 0..<400 { recorder.record(UInt16(30_000 + number), arrival: now) }
        let bytes = [UInt8](capacity: 1_100) { output in
            _ = recorder.appendFeedback(to: &output, senderSSRC: 1, mediaSSRC: 2)
        }
        var cursor = RTCPCursor(bytes.span)
        let feedback = TransportFeedback(cursor.next(in: bytes.span)!, in: bytes.span)!
        estimator.receive(feedback, in: bytes.span, now: now)
        #expect(estimator.target == 300_000)
        #expect(estimator.acknowledgedRate == nil)
    }
}

@Suite struct SentPacketWindowTests {
    @Test("each number is told once, over the wrap of 16 bits as well")
    func wrap() {
        var window = SentPacketWindow.create()
        defer { window.destroy() }
        var now = Instant(nanoseconds: 0)
        for k in 1...70_000 {
            now += .milliseconds(1)
            let number = window.send(byteCount: 100 + k % 7, at: now)
            let told = window.arrived(number)
            let again = window.arrived(number)
            guard number == UInt16(truncatingIfNeeded: k), told?.packet.sentAt == now,
                told?.packet.byteCount == 100 + k % 7, again == nil
            else {
                Issue.record("number \(k): \(number), told \(String(describing: told))")
                return
            }
        }
    }

    @Test("a packet is missing once, and may still come")
    func missing() {
        var window = SentPacketWindow.create()
        defer { window.destroy() }
        let number = window.send(byteCount: 100, at: Instant(nanoseconds: 0), probe: 3)
        let told = [window.isMissing(number), window.isMissing(number)]
        #expect(told == [true, false])
        let late = window.arrived(number)
        #expect(late?.wasMissing == true && late?.packet.probe == 3)
        let after = window.isMissing(number)
        #expect(!after)
    }

    @Test("what left the window, and what was never sent, is unknown")
    func outside() {
        var window = SentPacketWindow.create()
        defer { window.destroy() }
        let unsent = [window.arrived(0), window.arrived(1)].compactMap { $0 }
        #expect(unsent.isEmpty)
        let first = window.send(byteCount: 100, at: Instant(nanoseconds: 0))
        for _ in 0..<SentPacketWindow.windowCount { _ = window.send(byteCount: 100, at: Instant(nanoseconds: 0)) }
        let gone = window.arrived(first)
        let kept = window.arrived(first &+ 1)
        #expect(gone == nil && kept != nil)
    }
}
