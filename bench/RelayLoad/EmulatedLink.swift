import MediaRelay
import RTPCore
import RelayLoadKit
import RelayTesting

/// A bad network between clients of a fleet and the relay, both ways, on real sockets: datagrams are lost, late, doubled and out of
/// order, by a seed. Owns what is on its way. Confined to the loop's thread.
final class EmulatedLink {
    struct Quality: Sendable {
        /// Shares of the datagrams of each way.
        var loss = 0.0
        var doubled = 0.0
        var reordered = 0.0
        /// One way; to it comes what `jitter` adds, up to that.
        var delay = Interval.zero
        var jitter = Interval.zero

        /// A telephone's at the edge of its cell.
        static let mobile = Quality(
            loss: 0.03, doubled: 0.002, reordered: 0.01, delay: .milliseconds(25), jitter: .milliseconds(15))
    }

    enum Way: Int { case up, down }

    private struct Flight: Comparable {
        var at: Instant
        var order: UInt64
        var way: Way
        var client: FleetClient
        var datagram: SimulatedClient.Datagram
        static func < (a: Flight, b: Flight) -> Bool { (a.at, a.order) < (b.at, b.order) }
        static func == (a: Flight, b: Flight) -> Bool { a.order == b.order }
    }

    private var flights = Heap<Flight>()
    private var random: RandomSource
    private var order: UInt64 = 0
    private(set) var carried = 0
    private(set) var lost = 0

    init(seed: UInt64) { random = .seeded(seed) }

    var deadline: Instant { flights.first?.at ?? .distantFuture }

    /// Lets a datagram go on its way.
    func carry(
        _ datagram: SimulatedClient.Datagram, _ way: Way, of client: FleetClient, _ quality: Quality, now: Instant
    ) {
        carried += 1
        if draw() < quality.loss {
            lost += 1
            return
        }
        for _ in 0..<(draw() < quality.doubled ? 2 : 1) {
            var at = now + quality.delay + .nanoseconds(Int64(Double(quality.jitter.nanoseconds) * draw()))
            if draw() < quality.reordered {
                at += .milliseconds(20)
            } else {
                at = max(at, client.lastArrivals[way.rawValue])
                client.lastArrivals[way.rawValue] = at
            }
            order += 1
            flights.insert(Flight(at: at, order: order, way: way, client: client, datagram: datagram))
        }
    }

    /// Hands over what has arrived.
    func deliver(now: Instant, _ body: (FleetClient, Way, SimulatedClient.Datagram) -> Void) {
        while let first = flights.first, first.at <= now {
            _ = flights.removeFirst()
            body(first.client, first.way, first.datagram)
        }
    }

    private func draw() -> Double { Double.random(in: 0..<1, using: &random) }
}
