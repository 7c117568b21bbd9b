import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// T40, T105: a worker whose process lives and does nothing is as bad as a dead one, and nobody tells.
@Suite("Workers that hang", .serialized) struct WorkerHangTests {
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
