import RTPCore
import RelayCore
import Testing

/// How the last figures of removed transports complete a record.
@Suite("Call records: last figures") struct CallFiguresTests {
    private let harness = ConductorHarness()

    private func figures(_ packets: UInt64) -> TransportStatistics {
        var statistics = TransportStatistics()
        statistics.packetsReceived = packets
        return statistics
    }

    private func records(_ room: RoomID) -> [CallRecord] { harness.calls.filter { $0.room == room } }

    @Test("the record is given out once more when the last of the awaited figures has come, and is complete then")
    func completed() throws {
        let (room, alice, ben) = harness.talking()
        harness.news(.statistics(ben.handle, figures(5), at: harness.now))
        harness.leave(ben, in: room)
        #expect(records(room).count == 1 && records(room)[0].isComplete == false)
        #expect(records(room)[0].legs.first { $0.uid == "ben" }?.statistics.packetsReceived == 5)
        harness.news(.removed(ben.handle, figures(100), at: harness.now))
        #expect(records(room).count == 1, "one leg is still out")
        harness.news(.removed(alice.handle, figures(200), at: harness.now))
        let record = try #require(records(room).last)
        #expect(records(room).count == 2 && record.isComplete)
        #expect(record.legs.first { $0.uid == "ben" }?.statistics.packetsReceived == 100)
        #expect(record.legs.first { $0.uid == "alice" }?.statistics.packetsReceived == 200)
        #expect(record.endedAtMs == records(room)[0].endedAtMs && record.durationMs == records(room)[0].durationMs)
        harness.news(.removed(alice.handle, figures(300), at: harness.now))
        #expect(records(room).count == 2, "once")
    }

    @Test("the figures of one who ended by itself are its last") func ended() throws {
        let (room, alice, ben) = harness.talking()
        harness.news(.ended(ben.handle, .closed, at: harness.now, figures(7)))
        let leg = try #require(records(room)[0].legs.first { $0.uid == "ben" })
        #expect(leg.isFinal && leg.statistics.packetsReceived == 7)
        harness.news(.removed(alice.handle, figures(8), at: harness.now))
        #expect(records(room).last?.isComplete == true)
    }

    @Test("an end that crossed the command to remove brings the last figures as well") func crossing() throws {
        let (room, alice, ben) = harness.talking()
        harness.leave(ben, in: room)
        harness.news(.removed(ben.handle, figures(1), at: harness.now))
        harness.news(.ended(alice.handle, .closed, at: harness.now, figures(9)))
        #expect(records(room).last?.isComplete == true)
        #expect(records(room).last?.legs.first { $0.uid == "alice" }?.statistics.packetsReceived == 9)
    }

    @Test("figures of one who left before the end are in the record from the start") func earlier() throws {
        let room = harness.createRoom(kind: .group)
        let alice = harness.joined("alice", in: room)
        let ben = harness.joined("ben", in: room)
        harness.leave(ben, in: room)
        harness.news(.removed(ben.handle, figures(3), at: harness.now))
        #expect(records(room).isEmpty)
        harness.news(.ended(alice.handle, .closed, at: harness.now, figures(4)))
        harness.advance(.seconds(60))
        #expect(records(room).count == 1 && records(room)[0].isComplete)
        #expect(records(room)[0].legs.map(\.statistics.packetsReceived) == [3, 4])
    }

    @Test("a worker that died leaves the record as it was: not complete, with the figures known last") func died()
        throws
    {
        let (room, alice, ben) = harness.talking()
        harness.leave(ben, in: room)
        harness.lose(ConductorHarness.worker(0))
        harness.connect(ConductorHarness.worker(0, epoch: 2))
        harness.news(.removed(alice.handle, figures(1), at: harness.now), from: ConductorHarness.worker(0, epoch: 2))
        #expect(records(room).count == 1 && records(room)[0].isComplete == false)
    }

    @Test("figures that were on their way when control died complete the record after its restart") func restart()
        throws
    {
        let (room, alice, ben) = harness.talking()
        harness.leave(ben, in: room)
        harness.restart()
        harness.connect(
            ConductorHarness.worker(0),
            news: [
                .removed(ben.handle, figures(11), at: harness.now),
                .removed(alice.handle, figures(12), at: harness.now),
            ])
        let record = try #require(records(room).last)
        #expect(records(room).count == 2 && record.isComplete)
        #expect(record.legs.map(\.statistics.packetsReceived).sorted() == [11, 12])
    }

    @Test("a client that hung up while control was away is named in the record") func away() throws {
        let (room, alice, ben) = harness.talking()
        harness.decide(.workerDetached(ConductorHarness.worker(0)))
        harness.connect(
            ConductorHarness.worker(0), transports: [harness.snapshot(alice, in: room, .joined)],
            news: [.ended(ben.handle, .closed, at: harness.now, figures(1))])
        #expect(records(room)[0].cause == CallCause(.participant, uid: "ben", device: "phone"))
    }

    @Test("an ended room that is forgotten awaits nothing") func forgotten() throws {
        let (room, alice, ben) = harness.talking()
        harness.leave(ben, in: room)
        harness.advance(.seconds(3_601))
        #expect(harness.record(room) == nil)
        harness.news(.removed(alice.handle, figures(1), at: harness.now))
        #expect(records(room).count == 1)
    }
}
