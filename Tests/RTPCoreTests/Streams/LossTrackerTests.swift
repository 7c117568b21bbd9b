import RTPCore
import Testing

@Suite("Loss tracker")
struct LossTrackerTests {
    static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    struct Requests: Equatable {
        var sequences: [UInt16]
        var gaveUp: Int
        var isAgain: Bool
        init(_ sequences: [UInt16], gaveUp: Int = 0, isAgain: Bool = false) {
            self.sequences = sequences
            self.gaveUp = gaveUp
            self.isAgain = isAgain
        }
    }

    static func requests(
        _ tracker: inout LossTracker, at milliseconds: Int64, roundTrip: Int64 = 40, room: Int = 256
    ) -> Requests {
        var turn = LossTracker.Turn()
        let sequences = [UInt16](capacity: room) { output in
            turn = tracker.nextRequests(
                now: at(milliseconds), roundTrip: .milliseconds(roundTrip), into: &output)
        }
        return Requests(sequences, gaveUp: turn.gaveUpCount, isAgain: turn.isAgain)
    }

    static func with(_ body: (inout LossTracker) -> Void) {
        var tracker = LossTracker.create()
        defer { tracker.destroy() }
        body(&tracker)
    }

    @Test("packets in order ask for nothing")
    func inOrder() {
        Self.with { tracker in
            for sequence: UInt64 in 65_530...65_545 {
                let reception = tracker.received(sequence, now: Self.at(0))
                #expect(reception == .next)
            }
            #expect(tracker.deadline == .distantFuture)
            #expect(Self.requests(&tracker, at: 1_000) == Requests([]))
        }
    }

    @Test("a gap is asked for 5 ms after it was seen")
    func tolerance() {
        Self.with { tracker in
            _ = tracker.received(10, now: Self.at(0))
            let reception = tracker.received(12, now: Self.at(1))
            #expect(reception == .gap)
            #expect(tracker.deadline == Self.at(6))
            #expect(Self.requests(&tracker, at: 5) == Requests([]))
            #expect(Self.requests(&tracker, at: 6) == Requests([11]))
        }
    }

    @Test("a gap is asked for at once when a second newer packet comes")
    func secondPacket() {
        Self.with { tracker in
            _ = tracker.received(10, now: Self.at(0))
            _ = tracker.received(13, now: Self.at(1))
            _ = tracker.received(14, now: Self.at(2))
            #expect(tracker.deadline == Self.at(2))
            #expect(Self.requests(&tracker, at: 2) == Requests([11, 12]))
        }
    }

    @Test("neighbours that changed places are not asked for")
    func reordered() {
        Self.with { tracker in
            _ = tracker.received(10, now: Self.at(0))
            _ = tracker.received(12, now: Self.at(1))
            let reception = tracker.received(11, now: Self.at(2))
            #expect(reception == .repaired)
            #expect(tracker.count == 0)
            #expect(tracker.deadline == .distantFuture)
            _ = tracker.received(13, now: Self.at(3))
            #expect(Self.requests(&tracker, at: 50) == Requests([]))
        }
    }

    @Test("a fresh gap keeps its tolerance when an older one is confirmed by the same packet")
    func twoGaps() {
        Self.with { tracker in
            _ = tracker.received(10, now: Self.at(0))
            _ = tracker.received(12, now: Self.at(1))
            _ = tracker.received(14, now: Self.at(2))
            #expect(Self.requests(&tracker, at: 2) == Requests([11]))
            #expect(tracker.deadline == Self.at(7))
            #expect(Self.requests(&tracker, at: 7) == Requests([13]))
        }
    }

    @Test("numbers around the wrap are asked for in rising order")
    func wrap() {
        Self.with { tracker in
            _ = tracker.received(65_533, now: Self.at(0))
            _ = tracker.received(65_538, now: Self.at(0))
            #expect(Self.requests(&tracker, at: 5) == Requests([65_534, 65_535, 0, 1]))
        }
    }

    @Test(
        "a number is asked for again after a round trip and an eighth, 5 ms more at least, but not before 20 ms",
        arguments: [(48, 54), (20, 25), (4, 20), (0, 112), (200, 225)])
    func spacing(_ roundTrip: Int64, _ spacing: Int64) {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(3, now: Self.at(0))
            #expect(Self.requests(&tracker, at: 5, roundTrip: roundTrip) == Requests([2]))
            #expect(tracker.deadline >= Self.at(5 + spacing) && tracker.deadline < Self.at(6 + spacing))
            #expect(Self.requests(&tracker, at: 4 + spacing, roundTrip: roundTrip) == Requests([]))
            let again = Self.requests(&tracker, at: 6 + spacing, roundTrip: roundTrip)
            #expect(again == Requests([2], isAgain: true))
        }
    }

    @Test("a number is given up after ten requests")
    func requestLimit() {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(3, now: Self.at(0))
            var count = 0
            var gaveUp = 0
            while tracker.deadline < .distantFuture {
                let requests = Self.requests(
                    &tracker, at: tracker.deadline.nanoseconds / 1_000_000, roundTrip: 10)
                count += requests.sequences.count
                gaveUp += requests.gaveUp
            }
            #expect(count == 10)
            #expect(gaveUp == 1)
            #expect(tracker.gaveUpCount == 1)
            #expect(tracker.count == 0)
        }
    }

    @Test("a number is given up after a second, however long the round trip")
    func lifetime() {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(3, now: Self.at(0))
            #expect(Self.requests(&tracker, at: 5, roundTrip: 60_000) == Requests([2]))
            #expect(tracker.deadline == Self.at(1_000))
            #expect(Self.requests(&tracker, at: 1_000) == Requests([], gaveUp: 1))
            #expect(tracker.deadline == .distantFuture)
        }
    }

    @Test("a retransmission that comes ends the requests for its number alone")
    func repaired() {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(5, now: Self.at(0))
            #expect(Self.requests(&tracker, at: 5) == Requests([2, 3, 4]))
            let reception = tracker.received(3, now: Self.at(30))
            #expect(reception == .repaired)
            #expect(Self.requests(&tracker, at: 65) == Requests([2, 4], isAgain: true))
            #expect(tracker.repairedCount == 1)
        }
    }

    @Test("a duplicate and a packet of before the first are late and change nothing")
    func late() {
        Self.with { tracker in
            _ = tracker.received(10, now: Self.at(0))
            let duplicate = tracker.received(10, now: Self.at(1))
            let older = tracker.received(9, now: Self.at(1))
            #expect(duplicate == .late && older == .late)
            #expect(tracker.count == 0)
        }
    }

    @Test("a key frame clears what is missing before it and keeps what is missing in it")
    func keyFrame() {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(5, now: Self.at(0))
            _ = tracker.received(7, now: Self.at(1))
            tracker.keyFrameStarts(at: 5)
            #expect(tracker.count == 1)
            #expect(Self.requests(&tracker, at: 6) == Requests([6]))
        }
    }

    @Test("a jump is a new beginning that needs a key frame", arguments: [1_004, 40_000, 1 << 47])
    func jump(sequence: UInt64) {
        Self.with { tracker in
            _ = tracker.received(1, now: Self.at(0))
            _ = tracker.received(3, now: Self.at(0))
            let reception = tracker.received(sequence, now: Self.at(1))
            #expect(reception == .needsKeyFrame)
            #expect(tracker.count == 0)
            #expect(tracker.deadline == .distantFuture)
            let next = tracker.received(sequence + 1, now: Self.at(2))
            #expect(next == .next)
        }
    }

    @Test("256 missing numbers are held, one more needs a key frame")
    func capacity() {
        Self.with { tracker in
            _ = tracker.received(0, now: Self.at(0))
            let full = tracker.received(257, now: Self.at(0))
            #expect(full == .gap)
            #expect(tracker.count == 256)
            let over = tracker.received(259, now: Self.at(1))
            #expect(over == .needsKeyFrame)
            #expect(tracker.count == 0)
        }
    }

    @Test("numbers that find no room in the request stay due")
    func room() {
        Self.with { tracker in
            _ = tracker.received(0, now: Self.at(0))
            _ = tracker.received(6, now: Self.at(0))
            #expect(Self.requests(&tracker, at: 5, room: 3) == Requests([1, 2, 3]))
            #expect(tracker.deadline <= Self.at(5))
            #expect(Self.requests(&tracker, at: 5, room: 3) == Requests([4, 5]))
            #expect(tracker.deadline > Self.at(5))
        }
    }

    @Test(
        "under random loss every number is repaired, given up or still missing, and asked for at most 10 times"
    )
    func random() {
        Self.with { tracker in
            var random = RandomSource.seeded(7)
            var requestCounts: [UInt16: Int] = [:]
            var lost = 0
            var repaired = 0
            var gaveUp = 0
            for step in Int64(0)..<5_000 {
                let isLost = step > 0 && UInt8.random(in: 0..<100, using: &random) < 20
                if isLost {
                    lost += 1
                } else {
                    let reception = tracker.received(UInt64(step) + 65_000, now: Self.at(step * 2))
                    #expect(reception == .next || reception == .gap)
                }
                guard tracker.deadline <= Self.at(step * 2) else { continue }
                let requests = Self.requests(&tracker, at: step * 2, roundTrip: 30)
                gaveUp += requests.gaveUp
                for sequence in requests.sequences {
                    requestCounts[sequence, default: 0] += 1
                    // Half of the retransmissions come.
                    guard Bool.random(using: &random) else { continue }
                    let reference = Int64(step) + 65_000
                    let extended = UInt64(SequenceNumber.extend(sequence, near: reference))
                    let reception = tracker.received(extended, now: Self.at(step * 2))
                    #expect(reception == .repaired)
                    repaired += 1
                }
            }
            let unseen = lost - repaired - gaveUp - tracker.count
            // Losses at the very end are not seen yet: no newer packet came.
            #expect(unseen >= 0 && unseen < 10)
            #expect(repaired > 900)
            #expect((requestCounts.values.max() ?? 0) <= 10)
        }
    }
}
