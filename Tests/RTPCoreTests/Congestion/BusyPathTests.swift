import Testing

@testable import RTPCore

/// What a path lets through, told from packets of 1,000 bytes.
@Suite struct BusyPathTests {
    private var path = BusyPath()
    private var now = Instant(nanoseconds: 5_000_000_000)
    /// When the last packet arrived, by another clock.
    private var arrival = Interval.seconds(700)

    /// A packet that leaves `spacing` after the last one and takes 25 ms, or waits until `service` after the one before it came.
    private mutating func send(after spacing: Interval, service: Interval) {
        now += spacing
        let soonest = (now - Instant(nanoseconds: 0)) + .seconds(695) + .milliseconds(25)
        arrival = max(soonest, arrival + service)
        path.add(SentPacketWindow.Packet(sentAt: now, byteCount: 1_000, probe: 0), arrivedAt: arrival)
    }

    /// 400 kbit/s, of which four times as much is sent for a while.
    private mutating func overload() {
        for _ in 0..<10 { send(after: .milliseconds(100), service: .milliseconds(20)) }
        for _ in 0..<40 { send(after: .milliseconds(5), service: .milliseconds(20)) }
    }

    @Test("while packets wait for each other their distance is the path's rate, within 2 %")
    mutating func busy() throws {
        overload()
        let rate = try #require(path.current)
        #expect(abs(rate - 400_000) < 8_000)
        #expect(path.queue > .milliseconds(500))
    }

    @Test("a path that passes a quarter of what is sent is overrun within 200 ms, one that passes four fifths never")
    mutating func overrun() {
        for _ in 0..<10 { send(after: .milliseconds(100), service: .milliseconds(20)) }
        let start = arrival
        while !path.isOverrun, arrival - start < .seconds(1) {
            send(after: .milliseconds(5), service: .milliseconds(20))
        }
        #expect(arrival - start <= .milliseconds(200))
        var full = BusyPathTests()
        for _ in 0..<10 { full.send(after: .milliseconds(100), service: .milliseconds(20)) }
        var wasOverrun = false
        for _ in 0..<100 {
            full.send(after: .milliseconds(16), service: .milliseconds(20))
            wasOverrun = wasOverrun || full.path.isOverrun
        }
        #expect(!wasOverrun && full.path.queue > .milliseconds(300))
    }

    @Test("what passed then is known when less is sent")
    mutating func afterwards() throws {
        overload()
        send(after: .seconds(1), service: .milliseconds(20))
        for _ in 0..<10 { send(after: .milliseconds(40), service: .milliseconds(20)) }
        #expect(path.current == nil && !path.isBusy)
        #expect(path.queue < .milliseconds(1))
        let known = try #require(path.state(acknowledged: 200_000).passes)
        #expect(abs(known - 400_000) < 8_000)
        #expect(path.state(acknowledged: 500_000).passes == 500_000)
    }

    @Test("ten seconds later it is forgotten")
    mutating func forgotten() {
        overload()
        for _ in 0..<110 { send(after: .milliseconds(100), service: .milliseconds(20)) }
        #expect(path.known == nil)
        #expect(path.state(acknowledged: 80_000).passes == 80_000)
        #expect(path.state(acknowledged: nil).passes == nil)
    }

    @Test("a path that is never busy shows nothing")
    mutating func idle() {
        for _ in 0..<100 { send(after: .milliseconds(20), service: .milliseconds(18)) }
        #expect(path.known == nil && !path.isBusy)
    }

    @Test("packets that overtook each other say nothing")
    mutating func reordered() {
        for _ in 0..<10 { send(after: .milliseconds(20), service: .milliseconds(1)) }
        let late = SentPacketWindow.Packet(sentAt: now - .milliseconds(10), byteCount: 60_000, probe: 0)
        path.add(late, arrivedAt: arrival + .milliseconds(500))
        #expect(!path.isBusy && path.known == nil)
    }

    @Test("a longer way is a queue for 20 s at most")
    mutating func detour() {
        for _ in 0..<100 { send(after: .milliseconds(20), service: .milliseconds(1)) }
        for _ in 0..<1_100 {
            now += .milliseconds(20)
            arrival = (now - Instant(nanoseconds: 0)) + .seconds(695) + .milliseconds(75)
            path.add(SentPacketWindow.Packet(sentAt: now, byteCount: 1_000, probe: 0), arrivedAt: arrival)
        }
        #expect(!path.isBusy && path.queue == .zero)
    }
}
