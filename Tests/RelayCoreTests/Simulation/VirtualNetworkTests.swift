import RTPCore
import RelayTesting
import Testing

@Suite("Virtual network") struct VirtualNetworkTests {
    static let a = PeerAddress(ipv4: 1, port: 1)
    static let b = PeerAddress(ipv4: 2, port: 2)

    /// Sends `count` numbered datagrams 1 ms apart and returns their numbers as they arrive.
    static func arrivals(_ network: VirtualNetwork, count: Int = 1_000) -> [Int] {
        for number in 0..<count {
            network.send(
                [UInt8(number >> 8), UInt8(number & 0xFF)], from: a, to: b,
                now: Instant(nanoseconds: Int64(number) * 1_000_000))
        }
        var numbers: [Int] = []
        var last = Instant(nanoseconds: 0)
        while let datagram = network.next(until: .distantFuture) {
            #expect(datagram.arrivesAt >= last)
            last = datagram.arrivesAt
            numbers.append(Int(datagram.bytes[0]) << 8 | Int(datagram.bytes[1]))
        }
        return numbers
    }

    @Test("a perfect one delivers everything once, in order, after its delay")
    func perfect() {
        let network = VirtualNetwork(seed: 1)
        network.send([1], from: Self.a, to: Self.b, now: Instant(nanoseconds: 0))
        #expect(network.deadline == Instant(nanoseconds: 10_000_000))
        #expect(network.next(until: Instant(nanoseconds: 9_999_999)) == nil)
        #expect(network.next(until: network.deadline)?.bytes == [1])
        #expect(Self.arrivals(VirtualNetwork(seed: 1)) == Array(0..<1_000))
    }

    @Test("loss follows the probability")
    func loss() {
        let network = VirtualNetwork(seed: 2, quality: .init(loss: 0.1))
        let count = Self.arrivals(network).count
        #expect((850...950).contains(count))
        #expect(network.counters.lost == 1_000 - count)
    }

    @Test("jitter keeps the order, reordering does not")
    func order() {
        let jittered = Self.arrivals(VirtualNetwork(seed: 3, quality: .init(jitter: .milliseconds(30))))
        #expect(jittered == Array(0..<1_000))
        let reordered = Self.arrivals(VirtualNetwork(seed: 3, quality: .init(reordering: 0.2)))
        #expect(reordered != Array(0..<1_000))
        #expect(reordered.sorted() == Array(0..<1_000))
    }

    @Test("duplicates come besides the originals")
    func duplication() {
        let network = VirtualNetwork(seed: 4, quality: .init(duplication: 0.3))
        let arrived = Self.arrivals(network)
        #expect(Set(arrived).count == 1_000)
        #expect(arrived.count == 1_000 + network.counters.duplicated)
        #expect(network.counters.duplicated > 200)
    }

    @Test("one seed gives one run, another seed another")
    func seeded() {
        let rough = VirtualNetwork.Quality(loss: 0.1, jitter: .milliseconds(5), duplication: 0.1, reordering: 0.1)
        let first = Self.arrivals(VirtualNetwork(seed: 5, quality: rough))
        #expect(first == Self.arrivals(VirtualNetwork(seed: 5, quality: rough)))
        #expect(first != Self.arrivals(VirtualNetwork(seed: 6, quality: rough)))
    }

    @Test("a link may be worse than the others")
    func perLink() {
        let network = VirtualNetwork(seed: 7)
        network.setQuality(.init(loss: 1), from: Self.a, to: Self.b)
        network.send([1], from: Self.a, to: Self.b, now: Instant(nanoseconds: 0))
        network.send([2], from: Self.b, to: Self.a, now: Instant(nanoseconds: 0))
        #expect(network.next(until: .distantFuture)?.bytes == [2])
        #expect(network.next(until: .distantFuture) == nil)
    }
}
