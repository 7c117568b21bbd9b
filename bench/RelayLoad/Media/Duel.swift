import CLinuxIO
import Foundation
import MediaRelay
import RTPCore
import RelayLoadKit

/// What one window of load showed of one forwarder.
struct LoadWindow {
    /// CPU of the whole process, per packet that the receivers got in the window.
    var nanosecondsPerPacket = 0.0
    /// Share of a core.
    var busy = 0.0
    var packetsPerSecond = 0.0
    /// Packets for each time that a thread was given a processor.
    var packetsPerTurn = 0.0
    /// Of the window with its beginning and end: packets that should have come and did not.
    var lost = 0
    var gaps = 0
    var unopened = 0
    /// Datagrams that this program was too slow to take.
    var overflows = 0
    /// By how much the generator was late at most, ms.
    var behind = 0.0
    /// What came of what was planned.
    var sentShare = 1.0
    /// Added latency of the packets that were timed, µs, sorted.
    var latencies: [Double] = []

    func latency(_ q: Double) -> Double {
        latencies.isEmpty ? 0 : latencies[min(latencies.count - 1, Int(q * Double(latencies.count)))]
    }
}

/// The same load to two forwarders in turn, a window each: the machine's moods hit both alike.
struct Duel {
    let fleet: MediaFleet
    let mill: MediaMill
    var profile: MediaProfile
    var clients: Range<Int>
    /// Receivers of each packet.
    var receivers = 1
    var slowedBy: Int64 = 1
    var seconds = 2.0
    /// The thread that forwards under SCHED_FIFO, where permitted: what else the machine does is in neither's figures.
    var isRealTime = true

    /// Packets that should be forwarded in a second.
    var rate: Double { Double(clients.count * profile.packetsPerSecond * receivers) / Double(slowedBy) }

    /// One window. Its first 300 ms are not measured: state is warmed up, and a waiting policy finds its mode.
    func window(_ forwarder: Forwarder, seed: UInt64) -> LoadWindow {
        forwarder.setRealTime(isRealTime)
        mill.use(forwarder.legs)
        mill.schedule(clients, profile, slowedBy: slowedBy, seed: seed)
        let overflows = fleet.set.port.overflowCount
        mill.reset()
        mill.run(until: MonotonicClock.now() + .milliseconds(300))
        let (warmSent, warmReceived) = (mill.sent, mill.received)
        mill.startTiming()
        let before = ThreadTimes(forwarder.processID)
        let began = MonotonicClock.now()
        mill.run(until: began + .nanoseconds(Int64(seconds * 1e9)))
        let after = ThreadTimes(forwarder.processID)
        let lasted = Double((MonotonicClock.now() - began).nanoseconds) / 1e9
        let (sent, received) = (mill.sent - warmSent, mill.received - warmReceived)
        mill.drain(for: .milliseconds(60))
        var window = LoadWindow()
        let cpu = after.nanoseconds(since: before)
        window.nanosecondsPerPacket = cpu / Double(max(1, received))
        window.busy = cpu / 1e9 / lasted
        window.packetsPerSecond = Double(received) / lasted
        window.packetsPerTurn = Double(received) / max(1, after.turns(since: before))
        window.lost = max(0, mill.sent * receivers - mill.received)
        window.gaps = mill.gaps
        window.unopened = mill.unopened
        window.overflows = Int(fleet.set.port.overflowCount - overflows)
        window.behind = Double(mill.behind) / 1e6
        window.sentShare = Double(sent) * Double(receivers) / (rate * lasted)
        window.latencies = mill.takeLatencies().map { Double($0) / 1_000 }
        forwarder.setRealTime(false)
        return window
    }

    /// `pairs` windows of each, in turn.
    func measure(_ relay: Forwarder, _ limit: Forwarder, pairs: Int) async -> DuelResult {
        var result = DuelResult()
        for pair in 0..<pairs {
            for isRelay in pair.isMultiple(of: 2) ? [true, false] : [false, true] {
                let window = window(isRelay ? relay : limit, seed: UInt64(pair) &* 7_919 &+ 13)
                if isRelay { result.relay.append(window) } else { result.limit.append(window) }
                // The API's connections and event streams have their turn.
                await fleet.bench.loop.sleep(for: .milliseconds(20))
            }
            fleet.bench.report.progress(
                MonotonicClock.now(),
                "\(profile.rawValue), \(LoadReport.number(rate)) packets/s: pair \(pair + 1) of \(pairs), "
                    + "\(LoadReport.number(result.relay.last?.nanosecondsPerPacket ?? 0)) and "
                    + "\(LoadReport.number(result.limit.last?.nanosecondsPerPacket ?? 0)) ns a packet")
        }
        return result
    }
}

/// Windows of both, pair by pair.
struct DuelResult {
    var relay: [LoadWindow] = []
    var limit: [LoadWindow] = []

    /// Relay to limit of each pair.
    var ratios: [Double] { zip(relay, limit).map { $0.nanosecondsPerPacket / max(1, $1.nanosecondsPerPacket) } }
    var ratio: Double { ratios.median }
    var unopened: Int { (relay + limit).reduce(0) { $0 + $1.unopened } }

    /// The median over windows of a quantile of the added latency, µs.
    static func latency(_ windows: [LoadWindow], _ q: Double) -> Double { windows.map { $0.latency(q) }.median }
    static func median(_ windows: [LoadWindow], _ value: (LoadWindow) -> Double) -> Double { windows.map(value).median }
}

extension [Double] {
    var median: Double { quantile(0.5) }

    /// Linear between the two nearest values; 0 for none.
    func quantile(_ q: Double) -> Double {
        guard !isEmpty else { return 0 }
        let sorted = sorted()
        let position = q * Double(count - 1)
        let below = Int(position)
        let above = Swift.min(below + 1, count - 1)
        return sorted[below] + (sorted[above] - sorted[below]) * (position - Double(below))
    }
}
