import RTPCore
import RelayCore
import Testing

@Suite("Conductor: timer queue")
struct ConductorTimersTests {
    private func timer(_ value: UInt64) -> ConductorTimer { .participant(ParticipantHandle(value)) }
    private func at(_ value: Int64) -> Instant { Instant(nanoseconds: value) }

    @Test("timers come out by deadline, equal ones in the order they were set")
    func order() {
        var timers = ConductorTimers()
        for (value, deadline) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            timers.set(timer(UInt64(value)), to: at(Int64(deadline)))
        }
        var out: [ConductorTimer] = []
        while let next = timers.removeDue(at: at(100)) { out.append(next) }
        #expect(out == [timer(2), timer(4), timer(3), timer(1)])
    }

    @Test("nothing comes out before its time")
    func notBefore() {
        var timers = ConductorTimers()
        timers.set(timer(1), to: at(10))
        #expect(timers.removeDue(at: at(9)) == nil)
        #expect(timers.removeDue(at: at(10)) == timer(1))
    }

    @Test("setting again moves a timer and leaves nothing behind")
    func moves() {
        var timers = ConductorTimers()
        for deadline in 0..<1_000 { timers.set(timer(1), to: at(Int64(deadline))) }
        #expect(timers.count == 1)
        #expect(timers.next == at(999))
    }

    @Test("a queue without timers waits for ever")
    func empty() {
        var timers = ConductorTimers()
        #expect(timers.next == .distantFuture)
        timers.cancel(timer(1))
        #expect(timers.count == 0)
    }

    @Test("a thousand random changes agree with a sorted list", arguments: [1, 2, 3])
    func againstAModel(_ seed: UInt64) {
        var random = RandomSource.seeded(seed)
        var timers = ConductorTimers()
        var model: [ConductorTimer: Instant] = [:]
        for _ in 0..<1_000 {
            let chosen = timer(random.next() % 40)
            switch random.next() % 4 {
            case 0:
                timers.cancel(chosen)
                model[chosen] = nil
            case 1:
                let now = at(Int64(random.next() % 1_000))
                let earliest = model.values.min()
                if let due = timers.removeDue(at: now) {
                    #expect(model.removeValue(forKey: due) == earliest)
                } else {
                    #expect(earliest.map { $0 > now } ?? true)
                }
            default:
                let deadline = at(Int64(random.next() % 1_000))
                timers.set(chosen, to: deadline)
                model[chosen] = deadline
            }
            #expect(timers.next == (model.values.min() ?? .distantFuture))
            #expect(timers.count == model.count)
        }
    }
}
