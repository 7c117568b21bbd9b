import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// A control process's listening socket, to be closed and opened again, and one `LinkClient` in virtual time
/// beside it.
private final class LinkClientHarness {
    let folder = TemporaryFolder()
    let poller: Poller
    let client: LinkClient
    var now = Instant(nanoseconds: 1_000_000_000)
    private var listener: Int32 = -1
    private var peer: LinkConnection?

    var path: String { folder.path + "/link" }

    init() throws {
        poller = try Poller()
        client = LinkClient(path: folder.path + "/link", poller: poller, token: 1, now: now)
    }

    deinit { if listener >= 0 { close(listener) } }

    func openControl() {
        listener = lio_unix_listen(path, 4)
        precondition(listener >= 0)
    }

    func closeControl() {
        peer = nil
        close(listener)
        listener = -1
        unlink(path)
    }

    func closeConnection() { peer = nil }

    /// Lets the client act at `now` and gives what control hears.
    func advance() throws -> [LinkMessage] {
        client.advance(to: now) { news in
            WorkerHello(
                worker: WorkerID(index: 0, epoch: 77), processID: getpid(),
                endpoint: WorkerEndpoint(candidates: [], fingerprint: [UInt8](repeating: 0, count: 32)),
                transports: [],
                news: news)
        }
        if peer == nil, listener >= 0 {
            let descriptor = lio_unix_accept(listener)
            if descriptor >= 0 { peer = LinkConnection(taking: descriptor) }
        }
        return try peer?.receive() ?? []
    }

    func send(_ command: WorkerCommand) throws { try peer?.send(.command(command)) }

    /// Gives the client what its poller shows.
    func deliver() -> [WorkerCommand] {
        var commands: [WorkerCommand] = []
        for index in 0..<poller.wait(until: now, now: now) {
            commands += client.receive(poller.event(at: index), now: now)
        }
        return commands
    }

    /// The kept news of the one hello among `messages`.
    func helloNews(_ messages: [LinkMessage]) -> [WorkerNews]? {
        guard case .hello(let hello)? = messages.first, messages.count == 1 else { return nil }
        return hello.news
    }
}

private func joined(_ number: UInt64) -> WorkerNews {
    .joined(ParticipantHandle(number), at: Instant(nanoseconds: 1))
}
private func ended(_ number: UInt64) -> WorkerNews {
    .ended(ParticipantHandle(number), .closed, at: Instant(nanoseconds: 1), TransportStatistics())
}
private func removed(_ number: UInt64) -> WorkerNews {
    .removed(ParticipantHandle(number), TransportStatistics(), at: Instant(nanoseconds: 1))
}
private let statistics = WorkerNews.statistics(
    ParticipantHandle(1), TransportStatistics(), at: Instant(nanoseconds: 1))

@Suite struct LinkClientTests {
    @Test("a worker connects and says hello first")
    func hello() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        #expect(harness.helloNews(try harness.advance()) == [])
        #expect(harness.client.isConnected && harness.client.isAlone)
    }

    @Test("while control is away a worker knocks each 100 ms")
    func knocks() throws {
        let harness = try LinkClientHarness()
        _ = try harness.advance()
        #expect(harness.client.deadline == harness.now + .milliseconds(100))
        harness.openControl()
        harness.now += .milliseconds(99)
        #expect(try harness.advance() == [])
        harness.now += .milliseconds(1)
        #expect(harness.helloNews(try harness.advance()) == [])
    }

    @Test("news of the time without control come with the hello, in order, without statistics")
    func keptNews() throws {
        let harness = try LinkClientHarness()
        harness.client.tell([joined(1), statistics, ended(2)], now: harness.now)
        harness.openControl()
        #expect(harness.helloNews(try harness.advance()) == [joined(1), ended(2)])
    }

    @Test(
        "news between hello and adoption are told at once, and again when the link breaks before the adoption"
    )
    func newsBeforeAdoption() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        harness.client.tell([joined(1)], now: harness.now)
        #expect(try harness.advance() == [.news(joined(1))])
        harness.closeConnection()
        _ = harness.deliver()
        harness.now += .milliseconds(100)
        #expect(harness.helloNews(try harness.advance()) == [joined(1)])
    }

    @Test("after the adoption news are told and not kept")
    func adoption() throws {
        let harness = try LinkClientHarness()
        harness.client.tell([joined(1)], now: harness.now)
        harness.openControl()
        _ = try harness.advance()
        try harness.send(.adopted)
        #expect(harness.deliver() == [])
        #expect(!harness.client.isAlone)
        harness.client.tell([joined(2), statistics], now: harness.now)
        #expect(try harness.advance() == [.news(joined(2)), .news(statistics)])
        #expect(harness.client.keptNewsCount == 0)
    }

    @Test("an end, or last counters, told just before the link broke is told again, one of long ago is not")
    func recentEnds() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        try harness.send(.adopted)
        _ = harness.deliver()
        harness.client.tell([ended(1)], now: harness.now)
        harness.now += .seconds(11)
        harness.client.tell([joined(2), ended(3), removed(4)], now: harness.now)
        _ = try harness.advance()
        harness.closeConnection()
        _ = harness.deliver()
        harness.now += .milliseconds(100)
        #expect(harness.helloNews(try harness.advance()) == [ended(3), removed(4)])
    }

    @Test("commands come in order, adopted is the link's own")
    func commands() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        try harness.send(.join(ParticipantHandle(1)))
        try harness.send(.adopted)
        try harness.send(.remove(ParticipantHandle(1)))
        #expect(harness.deliver() == [.join(ParticipantHandle(1)), .remove(ParticipantHandle(1))])
    }

    @Test("a worker is alone from the loss of the link to the next adoption")
    func alone() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        try harness.send(.adopted)
        _ = harness.deliver()
        harness.closeControl()
        _ = harness.deliver()
        #expect(harness.client.isAlone && !harness.client.isConnected)
        harness.openControl()
        harness.now += .milliseconds(100)
        _ = try harness.advance()
        #expect(harness.client.isAlone && harness.client.isConnected)
        try harness.send(.adopted)
        _ = harness.deliver()
        #expect(!harness.client.isAlone)
    }

    @Test("five minutes without adoption give a worker up, also when control answers but does not adopt")
    func givenUp() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        #expect(harness.client.deadline == harness.now + .seconds(300))
        harness.now += .seconds(300) - .nanoseconds(1)
        #expect(!harness.client.hasBeenGivenUp(now: harness.now))
        harness.now += .nanoseconds(1)
        #expect(harness.client.hasBeenGivenUp(now: harness.now))
    }

    @Test("an adopted worker is never given up")
    func notGivenUp() throws {
        let harness = try LinkClientHarness()
        harness.openControl()
        _ = try harness.advance()
        try harness.send(.adopted)
        _ = harness.deliver()
        harness.now += .seconds(86_400)
        #expect(!harness.client.hasBeenGivenUp(now: harness.now))
        #expect(harness.client.deadline == .distantFuture)
    }

    @Test("kept news are bounded: the oldest make room and are counted")
    func bound() throws {
        var keeper = NewsKeeper(limit: 3)
        let now = Instant(nanoseconds: 1)
        for number in 1...5 { keeper.append(joined(UInt64(number)), now: now) }
        #expect(keeper.startHello(now: now) == [joined(3), joined(4), joined(5)])
        #expect(keeper.droppedCount == 2)
    }

    @Test("who is in which slot and who speaks is not kept: the hello's snapshot says it")
    func slotsAreNotKept() {
        var keeper = NewsKeeper(limit: 3)
        let now = Instant(nanoseconds: 1)
        keeper.append(joined(1), now: now)
        for number in 1...5 {
            keeper.append(.slots(ParticipantHandle(UInt64(number)), [], at: now), now: now)
            keeper.append(.speaker(ParticipantHandle(UInt64(number)), at: now), now: now)
        }
        #expect(keeper.startHello(now: now) == [joined(1)])
        #expect(keeper.droppedCount == 0)
    }

    @Test("a prompt that was over shortly before control died is told once more: the snapshot does not show it")
    func playedIsKept() {
        var keeper = NewsKeeper(limit: 3)
        let now = Instant(nanoseconds: 1)
        keeper.adopt()
        let played = WorkerNews.played(ParticipantHandle(1), PromptHandle(2), .finished, at: now)
        keeper.append(played, now: now)
        keeper.append(joined(1), now: now)
        #expect(keeper.startHello(now: now + .seconds(1)) == [played])
    }

    @Test("a socket file that nobody listens on is no trouble")
    func leftOverFile() throws {
        let harness = try LinkClientHarness()
        let descriptor = lio_unix_listen(harness.path, 1)
        close(descriptor)
        #expect(try harness.advance() == [])
        #expect(!harness.client.isConnected)
    }
}
