import RTPCore
import RelayCore
import Testing

@Suite("Conductor: workers' news")
struct ConductorNewsTests {
    private func call() -> (ConductorHarness, RoomID, HarnessParticipant) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.joined("bob", in: room)
        return (harness, room, alice)
    }

    @Test("keys in are told as participant.prepared, with the time at which it happened")
    func preparedTime() {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        let at = harness.now + .milliseconds(400)
        harness.move(to: at + .milliseconds(250))
        harness.news(.prepared(alice.handle, at: at))
        #expect(harness.lines == ["participant.prepared alice"])
        #expect(harness.lastTurn.events.first?.timeMs == harness.wallClockMs - 250)
        #expect(harness.record(room)?.participants.first?.preparedAtMs == harness.wallClockMs - 250)
    }

    @Test(
        "news from the future or from before the boot are taken as now or then, without a trap",
        arguments: [
            Instant.distantFuture, Instant(nanoseconds: .min), Instant(nanoseconds: .max),
        ])
    func absurdTimes(_ time: Instant) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room)
        harness.news(.prepared(alice.handle, at: time))
        #expect(harness.lastTurn.events.first.map { $0.timeMs <= harness.wallClockMs } == true)
    }

    @Test("interrupted and recovered are told once each and shown in the view")
    func interruption() {
        let (harness, room, alice) = call()
        harness.news(.interrupted(alice.handle, at: harness.now))
        #expect(harness.lines == ["participant.interrupted alice"])
        harness.news(.interrupted(alice.handle, at: harness.now))
        #expect(harness.lines == [])
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.participants.first?.isInterrupted == true)
        harness.news(.recovered(alice.handle, at: harness.now))
        #expect(harness.lines == ["participant.recovered alice"])
    }

    @Test("a moved path and the first packets of a kind are told")
    func pathAndMedia() {
        let (harness, _, alice) = call()
        harness.news(.pathChanged(alice.handle, at: harness.now))
        #expect(harness.lines == ["participant.path-changed alice"])
        harness.news(.media(alice.handle, .video, at: harness.now))
        #expect(harness.lines == ["participant.media alice"])
        #expect(harness.lastTurn.events.first?.value("kind") == .string("video"))
    }

    @Test("statistics are in the view, and are neither an event nor a write")
    func statistics() {
        let (harness, room, alice) = call()
        var statistics = TransportStatistics()
        statistics.packetsReceived = 1_234
        harness.news(.statistics(alice.handle, statistics, at: harness.now))
        #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.changedRooms.isEmpty)
        let view = harness.request(ConductorHarness.server, .room(room)).roomView
        #expect(view?.participants.first?.statistics.packetsReceived == 1_234)
    }

    @Test("news of a transport that nobody knows change nothing and remove it")
    func unknownTransport() {
        let (harness, _, _) = call()
        let stray = ParticipantHandle(99)
        harness.news(.prepared(stray, at: harness.now))
        #expect(harness.lastTurn.events.isEmpty)
        #expect(harness.lastTurn.commands.map(\.command) == [.remove(stray)])
    }

    @Test("the end of a transport that nobody knows needs no answer")
    func unknownTransportEnded() {
        let (harness, _, _) = call()
        harness.news(.ended(ParticipantHandle(99), .lost, at: harness.now, TransportStatistics()))
        #expect(harness.lastTurn.events.isEmpty && harness.lastTurn.commands.isEmpty)
    }

    @Test("news of a process that is gone are not heard")
    func oldEpoch() {
        let (harness, room, alice) = call()
        harness.news(
            .ended(alice.handle, .closed, at: harness.now, TransportStatistics()),
            from: ConductorHarness.worker(0, epoch: 77))
        #expect(harness.state(alice, in: room) == .joined)
        #expect(harness.lastTurn.commands.isEmpty)
    }

    @Test("one worker's word does not count for another worker's participant")
    func otherWorker() {
        let harness = ConductorHarness(workers: 2)
        let room = harness.createRoom()
        let alice = harness.joined("alice", in: room)
        harness.news(
            .ended(alice.handle, .closed, at: harness.now, TransportStatistics()), from: ConductorHarness.worker(1))
        #expect(harness.state(alice, in: room) == .joined)
    }

    @Test("the same news twice say the second time nothing", arguments: 0..<4)
    func duplicates(_ index: Int) {
        let harness = ConductorHarness()
        let room = harness.createRoom()
        let alice = harness.prepare("alice", in: room, state: .joined)
        let news: [WorkerNews] = [
            .prepared(alice.handle, at: harness.now), .joined(alice.handle, at: harness.now),
            .interrupted(alice.handle, at: harness.now),
            .ended(alice.handle, .lost, at: harness.now, TransportStatistics()),
        ]
        for earlier in news.prefix(index) { harness.news(earlier) }
        harness.news(news[index])
        #expect(!harness.lastTurn.events.isEmpty)
        harness.news(news[index])
        #expect(harness.lastTurn.events.isEmpty)
    }
}
