import RTPCore
import Testing

@Suite("Key frame requester")
struct KeyFrameRequesterTests {
    static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    /// The milliseconds at which a request is sent until `end` (exclusive), asked at each deadline.
    static func sends(_ requester: inout KeyFrameRequester, until end: Int64) -> [Int64] {
        var times: [Int64] = []
        while requester.deadline < at(end) {
            let now = requester.deadline
            if requester.shouldSend(now: now) { times.append(now.nanoseconds / 1_000_000) }
        }
        return times
    }

    @Test("a receiver's first wish is sent at once and once")
    func first() {
        var requester = KeyFrameRequester()
        #expect(requester.deadline == .distantFuture)
        requester.request(now: Self.at(0), urgent: false)
        let sent = requester.shouldSend(now: Self.at(0))
        let again = requester.shouldSend(now: Self.at(0))
        #expect(sent && !again)
        #expect(requester.deadline == .distantFuture)
    }

    @Test("T05: a wish inside the limit is sent when the limit ends")
    func remembered() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: false)
        _ = requester.shouldSend(now: Self.at(0))
        requester.request(now: Self.at(490), urgent: false)
        let early = requester.shouldSend(now: Self.at(499))
        #expect(!early)
        #expect(requester.deadline == Self.at(500))
        let due = requester.shouldSend(now: Self.at(500))
        #expect(due)
    }

    @Test("a key frame clears a remembered wish")
    func answered() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: false)
        _ = requester.shouldSend(now: Self.at(0))
        requester.request(now: Self.at(100), urgent: false)
        requester.keyFrameArrived(now: Self.at(200))
        #expect(requester.deadline == .distantFuture)
        let sent = requester.shouldSend(now: Self.at(600))
        #expect(!sent)
    }

    @Test("the limit counts from the last request, also after a key frame")
    func limitAfterKeyFrame() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: false)
        _ = requester.shouldSend(now: Self.at(0))
        requester.keyFrameArrived(now: Self.at(50))
        requester.request(now: Self.at(60), urgent: false)
        #expect(requester.deadline == Self.at(500))
    }

    @Test("T05: four receivers asking every 50 ms for 2 s give one request each 500 ms")
    func storm() {
        var requester = KeyFrameRequester()
        var times: [Int64] = []
        for now in Int64(0)..<2_000 {
            if now % 50 < 4 { requester.request(now: Self.at(now), urgent: false) }
            if requester.shouldSend(now: Self.at(now)) { times.append(now) }
        }
        #expect(times == [0, 500, 1_000, 1_500])
    }

    @Test("the relay's own request goes at once, ten times each 200 ms, then each 500 ms")
    func urgent() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(1_000), urgent: true)
        let times = Self.sends(&requester, until: 4_500)
        #expect(
            times == [
                1_000, 1_200, 1_400, 1_600, 1_800, 2_000, 2_200, 2_400, 2_600, 2_800, 3_300, 3_800, 4_300,
            ])
    }

    @Test("a key frame ends the relay's own requests")
    func urgentAnswered() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: true)
        #expect(Self.sends(&requester, until: 300) == [0, 200])
        requester.keyFrameArrived(now: Self.at(300))
        #expect(Self.sends(&requester, until: 60_000) == [])
    }

    @Test("a join inside the limit of a receiver's answered request is asked for at once")
    func urgentAfterAnswered() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: false)
        _ = requester.shouldSend(now: Self.at(0))
        requester.keyFrameArrived(now: Self.at(80))
        requester.request(now: Self.at(100), urgent: true)
        #expect(requester.deadline == Self.at(100))
    }

    @Test("a join just after an unanswered request waits for that one's key frame")
    func urgentAfterUnanswered() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: false)
        _ = requester.shouldSend(now: Self.at(0))
        requester.request(now: Self.at(50), urgent: true)
        #expect(requester.deadline == Self.at(200))
    }

    @Test("joins that follow each other before the key frame share the requests")
    func urgentMerged() {
        var requester = KeyFrameRequester()
        var times: [Int64] = []
        for now in Int64(0)..<1_000 {
            if now % 10 == 0 { requester.request(now: Self.at(now), urgent: true) }
            if requester.shouldSend(now: Self.at(now)) { times.append(now) }
        }
        #expect(times == [0, 200, 400, 600, 800])
    }

    @Test("receivers' wishes during the relay's own requests add none")
    func wishesDuringUrgent() {
        var requester = KeyFrameRequester()
        var times: [Int64] = []
        requester.request(now: Self.at(0), urgent: true)
        for now in Int64(0)..<700 {
            requester.request(now: Self.at(now), urgent: false)
            if requester.shouldSend(now: Self.at(now)) { times.append(now) }
        }
        #expect(times == [0, 200, 400, 600])
    }

    @Test("a source is waited for from the wish until its key frame, not after a wish that was cancelled")
    func waiting() {
        var requester = KeyFrameRequester()
        var states = [requester.isWaiting]
        requester.request(now: Self.at(0), urgent: false)
        states.append(requester.isWaiting)
        _ = requester.shouldSend(now: Self.at(0))
        states.append(requester.isWaiting)
        requester.keyFrameArrived(now: Self.at(10))
        states.append(requester.isWaiting)
        requester.request(now: Self.at(20), urgent: true)
        states.append(requester.isWaiting)
        requester.cancel()
        states.append(requester.isWaiting)
        #expect(states == [false, true, true, false, true, false])
    }

    @Test("T05: a full intra request with the same command number is a repetition")
    func commandNumbers() {
        var filter = FIRCommandFilter()
        let isNew = [0, 0, 1, 1, 255, 0].map { filter.isNew($0) }
        #expect(isNew == [true, false, true, false, true, true])
    }

    @Test("nothing is sent for a source that nobody wants any more, and the limit still counts")
    func cancelled() {
        var requester = KeyFrameRequester()
        requester.request(now: Self.at(0), urgent: true)
        _ = requester.shouldSend(now: Self.at(0))
        requester.cancel()
        #expect(requester.deadline == .distantFuture)
        requester.request(now: Self.at(10), urgent: false)
        #expect(requester.deadline == Self.at(500))
        #expect(requester.sentCount == 1)
    }
}
