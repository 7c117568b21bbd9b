import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// T40, T105: a worker whose process lives and does nothing is as bad as a dead one, and nobody tells.
@Suite("Workers that hang", .serialized) struct WorkerHangTests {
    @Test(
        "a handshaker that makes no step between six reports in a row is dead, whatever time went by; one that makes any is not"
    )
    func pulse() {
        var pulse = HandshakerPulse()
        for steps: UInt64 in [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1] { pulse.take(steps) }
        #expect(pulse.silentReports == 5)
        pulse.take(1)
        #expect(pulse.silentReports == SupervisorConfiguration.standardSilentReports)
        pulse.take(2)
        #expect(pulse.silentReports == 0)
    }

    @Test("a worker tells every second that its handshaker lives")
    func handshakerLives() throws {
        let control = try ControlHarness()
        _ = try #require(control.firstHello())
        #expect(control.run { $0.loads.count == 3 })
        let steps = control.loads.map(\.handshakerSteps)
        #expect(steps[0] < steps[2], "\(steps)")
        #expect(control.loads.allSatisfy { $0.residentBytes > 1 << 20 && $0.cpu > .zero && $0.backlog == .zero })
    }

    @Test("a backlog lasts from the turn that left something to the one that found the sockets empty")
    func backlog() {
        func at(_ ms: Int64) -> Instant { Instant(nanoseconds: ms * 1_000_000) }
        var meter = WorkerMeter(now: at(0))
        meter.note(isEmpty: true, began: at(10), now: at(90))
        #expect(meter.takeBacklog(now: at(100)) == .zero, "a long turn alone is none")
        meter.note(isEmpty: false, began: at(100), now: at(110))
        meter.note(isEmpty: false, began: at(110), now: at(120))
        #expect(meter.takeBacklog(now: at(125)) == .milliseconds(25), "it goes on")
        meter.note(isEmpty: true, began: at(130), now: at(140))
        meter.note(isEmpty: false, began: at(150), now: at(151))
        meter.note(isEmpty: true, began: at(151), now: at(152))
        #expect(meter.takeBacklog(now: at(200)) == .milliseconds(40))
        #expect(meter.takeBacklog(now: at(300)) == .zero)
    }

    @Test("a worker that hangs while it is connected is killed and replaced, one that only has nothing to tell is not")
    func hangs() throws {
        let control = try ControlHarness(workerCount: 2) {
            $0.hangLimit = .milliseconds(2_600)
            $0.hangGrace = .milliseconds(400)
        }
        #expect(control.run { $0.hellos.count == 2 })
        let hanging = try #require(control.hellos.first { $0.worker.index == 0 })
        kill(hanging.processID, SIGSTOP)
        #expect(control.run { !$0.gone.isEmpty })
        #expect(control.gone == [hanging.worker])
        #expect(control.causes == ["killed by signal 9"])
        #expect(control.run { $0.hellos.contains { $0.worker.index == 0 && $0.worker != hanging.worker } })
    }
}
