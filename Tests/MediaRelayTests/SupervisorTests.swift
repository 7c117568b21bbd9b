import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// The supervisor with real worker processes. One at a time: each test starts processes.
@Suite(.serialized) struct SupervisorTests {
    @Test("a started worker says hello with its endpoint and nothing to tell")
    func start() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        #expect(hello.worker.index == 0)
        #expect(hello.endpoint.candidates.map(\.address) == ["127.0.0.1", "127.0.0.1"])
        #expect(hello.endpoint.candidates.map(\.isStream) == [false, true])
        #expect(hello.endpoint.candidates.allSatisfy { $0.port != 0 })
        #expect(hello.endpoint.fingerprint.count == 32)
        #expect(hello.transports.isEmpty && hello.news.isEmpty)
        #expect(control.supervisor?.connectedWorkers == [hello.worker])
    }

    @Test("each index gets a worker, with its own port and epoch")
    func severalWorkers() throws {
        let control = try ControlHarness(workerCount: 2)
        try #require(control.run { $0.hellos.count == 2 })
        #expect(Set(control.hellos.map(\.worker.index)) == [0, 1])
        #expect(Set(control.hellos.map(\.worker.epoch)).count == 2)
        #expect(Set(control.hellos.flatMap(\.endpoint.candidates).map(\.port)).count == 2)
    }

    @Test("a worker lives in a session of its own")
    func session() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        #expect(getsid(hello.processID) == hello.processID)
    }

    @Test("a killed worker is told as gone within 2 s and replaced by another epoch")
    func killed() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let killedAt = MonotonicClock.now()
        kill(hello.processID, SIGKILL)
        #expect(control.run { !$0.gone.isEmpty })
        #expect(MonotonicClock.now() - killedAt < .seconds(2))
        #expect(control.gone == [hello.worker])
        #expect(control.causes == ["killed by signal 9"])
        try #require(control.run { $0.hellos.count == 2 })
        let replacement = try #require(control.hellos.last)
        #expect(replacement.worker.index == 0 && replacement.worker.epoch != hello.worker.epoch)
        #expect(replacement.processID != hello.processID)
    }

    @Test(
        "a worker that crashes by a trap's signal is replaced, the other one is left alone",
        arguments: [SIGSEGV, SIGILL])
    func crashed(signal: Int32) throws {
        let control = try ControlHarness(workerCount: 2)
        try #require(control.run { $0.hellos.count == 2 })
        let (first, second) = (control.hellos[0], control.hellos[1])
        kill(first.processID, signal)
        try #require(control.run { $0.hellos.count == 3 })
        #expect(control.gone == [first.worker])
        #expect(control.hellos[2].worker.index == first.worker.index)
        #expect(control.supervisor?.connectedWorkers.contains(second.worker) == true)
    }

    @Test("a worker outlives control, and comes back to the next one with the same epoch")
    func reconnects() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        control.close()
        control.forgetEvents()
        try control.open(known: [hello.known])
        #expect(control.run { !$0.hellos.isEmpty })
        #expect(control.hellos.first?.worker == hello.worker)
        #expect(control.hellos.first?.processID == hello.processID)
        #expect(control.hellos.first?.endpoint == hello.endpoint)
        #expect(control.gone.isEmpty)
        #expect(!control.notes.contains { $0.contains("started") })
    }

    @Test("a known worker whose process is gone is told at once, and replaced")
    func knownIsGone() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        control.close()
        control.forgetEvents()
        kill(hello.processID, SIGKILL)
        waitpid(hello.processID, nil, 0)
        try control.open(known: [hello.known])
        #expect(control.gone == [hello.worker])
        #expect(control.run { !$0.hellos.isEmpty })
        #expect(control.hellos.first?.worker.epoch != hello.worker.epoch)
    }

    @Test("a known worker whose number another process has now is gone, and that process is left alone")
    func numberUsedAgain() throws {
        let known = KnownWorker(worker: WorkerID(index: 0, epoch: 4), processID: getpid())
        let control = try ControlHarness(known: [known])
        #expect(control.gone == [known.worker])
        #expect(control.run { !$0.hellos.isEmpty })
    }

    @Test("a left-over worker that control does not know and nobody is on is sent away")
    func leftOver() throws {
        let control = try ControlHarness()
        let old = try #require(control.firstHello())
        control.close()
        control.forgetEvents()
        try control.open(known: [])
        try #require(control.run { !$0.gone.isEmpty && $0.supervisor?.connectedWorkers.count == 1 })
        #expect(control.hellos.count >= 1)
        // Whichever of the two came first stays; the other one is gone.
        let remaining = try #require(control.supervisor?.connectedWorkers.first)
        #expect(control.gone.count == 1 && control.gone.first != remaining)
        #expect(remaining == old.worker || control.gone.first == old.worker)
        #expect(control.causes == ["exited with status 0"])
    }

    @Test("shutDown ends every worker with status 0 and starts none any more")
    func shutDown() throws {
        let control = try ControlHarness(workerCount: 2)
        try #require(control.run { $0.hellos.count == 2 })
        control.supervisor?.shutDown(now: MonotonicClock.now())
        #expect(control.run { $0.supervisor?.isEmpty == true })
        #expect(control.causes == ["exited with status 0", "exited with status 0"])
        #expect(control.supervisor?.deadline == .distantFuture)
    }

    @Test("SIGTERM ends a worker in order")
    func terminate() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        kill(hello.processID, SIGTERM)
        #expect(control.run { !$0.gone.isEmpty })
        #expect(control.causes == ["exited with status 0"])
    }

    @Test("a binary that cannot be started is noted and tried again later, not at once")
    func cannotStart() throws {
        let control = try ControlHarness(executablePath: "/nonexistent/media-relay")
        let note = "worker 0 did not start: start /nonexistent/media-relay: No such file or directory (2)"
        control.turn(waitingFor: .zero)
        // The first try is repeated at once, the second one is not.
        #expect(control.notes == [note, note])
        let deadline = try #require(control.supervisor?.deadline)
        #expect(deadline > MonotonicClock.now() && deadline < .distantFuture)
    }

    @Test("a worker that exits before its hello is noted, without an event for a worker nobody knows")
    func exitsBeforeHello() throws {
        let control = try ControlHarness { $0.mediaAddresses = ["192.0.2.77"] }
        #expect(
            control.run { control in
                control.notes.contains { $0.hasSuffix("exited with status 4 before its hello") }
            })
        #expect(control.gone.isEmpty && control.hellos.isEmpty)
    }

    @Test("a process that says no hello in time is killed")
    func hangs() throws {
        let folder = TemporaryFolder()
        let script = folder.path + "/hang"
        let text = Array("#!/bin/sh\nexec sleep 600\n".utf8)
        let file = Glibc.open(script, O_WRONLY | O_CREAT, 0o700)
        #expect(write(file, text, text.count) == text.count)
        close(file)
        let control = try ControlHarness(executablePath: script) { $0.silenceLimit = .milliseconds(200) }
        #expect(
            control.run { control in
                control.notes.contains { $0.hasSuffix("killed by signal 9 before its hello") }
            })
        #expect(control.notes.contains { $0.hasSuffix("hangs: killed") })
        #expect(control.hellos.isEmpty)
    }

    @Test("a stopped worker that does not come back to control is killed and replaced")
    func stopped() throws {
        let control = try ControlHarness { $0.silenceLimit = .milliseconds(500) }
        let hello = try #require(control.firstHello())
        control.close()
        control.forgetEvents()
        kill(hello.processID, SIGSTOP)
        try control.open(known: [hello.known])
        #expect(control.run { !$0.gone.isEmpty })
        #expect(control.causes == ["killed by signal 9"])
    }

    @Test("a worker tells every counter that the table of metrics has, under that name, and no other")
    func counters() throws {
        let control = try ControlHarness()
        _ = try #require(control.firstHello())
        #expect(control.run { !$0.counters.isEmpty })
        let names = Set(control.counters.map { "media_relay_worker_\($0.name)" })
        let table = Set(Metric.all.map(\.name).filter { $0.hasPrefix("media_relay_worker_") })
        // What control knows by itself.
        let byControl: Set = [
            "up", "exits_total", "silence_seconds", "open", "load_cpu_ratio", "load_packets_per_second",
            "load_backlog_seconds",
            "load_resident_bytes",
        ]
        #expect(names == table.subtracting(byControl.map { "media_relay_worker_\($0)" }))
        #expect(control.counters.filter { $0.name == "drops_total" }.count == DropReason.allCases.count)
        for metric in Metric.all {
            let labels = control.counters.filter { "media_relay_worker_\($0.name)" == metric.name }.map(\.label)
            guard !labels.isEmpty else { continue }
            #expect(labels == (metric.values.isEmpty ? [""] : metric.values), "\(metric.name)")
        }
    }

    @Test("a command for a worker that is not connected is refused")
    func notConnected() throws {
        let control = try ControlHarness()
        _ = try #require(control.firstHello())
        #expect(!control.send(.adopted, to: WorkerID(index: 0, epoch: 1)))
    }

    @Test("a connection that claims another process is closed without an event")
    func impostor() throws {
        let control = try ControlHarness()
        let hello = try #require(control.firstHello())
        let connection = LinkConnection(taking: lio_unix_connect(control.folder.path + "/workers.sock"))
        try connection.send(.hello(hello))
        #expect(control.run { $0.notes.contains { $0.contains("process id") } })
        #expect(control.hellos.count == 1)
        #expect(control.supervisor?.connectedWorkers == [hello.worker])
    }

    @Test("news before a hello are refused")
    func newsFirst() throws {
        let control = try ControlHarness()
        let connection = LinkConnection(taking: lio_unix_connect(control.folder.path + "/workers.sock"))
        try connection.send(.news(.joined(ParticipantHandle(1), at: Instant(nanoseconds: 0))))
        #expect(control.run { $0.notes.contains { $0.contains("message out of place") } })
        #expect(control.news.isEmpty)
    }
}

@Suite struct DataFolderTests {
    @Test("the folder is made for its owner alone")
    func mode() throws {
        let parent = TemporaryFolder()
        let path = parent.path + "/data"
        do {
            let folder = try DataFolder(path: path)
            var status = stat()
            #expect(stat(folder.path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o700)
        }
        unlink(path + "/control.lock")
        rmdir(path)
    }

    @Test("the link's socket is for its owner alone")
    func socketMode() {
        let folder = TemporaryFolder()
        let descriptor = lio_unix_listen(folder.path + "/s", 1)
        defer { close(descriptor) }
        var status = stat()
        #expect(stat(folder.path + "/s", &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600)
    }

    @Test("a second control on one folder is refused with the first one's process id, until that is gone")
    func lock() throws {
        let parent = TemporaryFolder()
        do {
            let first = try DataFolder(path: parent.path)
            #expect(throws: DataFolder.Failure.inUse(path: first.path, processID: "\(getpid())")) {
                try DataFolder(path: first.path)
            }
        }
        #expect(throws: Never.self) { try DataFolder(path: parent.path) }
    }

    @Test("a folder that others may write to is refused")
    func writableByOthers() {
        let folder = TemporaryFolder()
        chmod(folder.path, 0o777)
        #expect(throws: DataFolder.Failure.unusable(path: folder.path, reason: "writable by other users")) {
            try DataFolder(path: folder.path)
        }
    }

    @Test("a path that leaves no room for the socket's name is refused")
    func longPath() {
        let path = "/tmp/" + String(repeating: "x", count: 100)
        #expect(
            throws: DataFolder.Failure.unusable(
                path: path, reason: "the socket's path in it exceeds 107 bytes")
        ) {
            try DataFolder(path: path)
        }
    }

    @Test("a file is no data folder")
    func file() {
        #expect(throws: DataFolder.Failure.unusable(path: "/etc/hostname", reason: "not a folder")) {
            try DataFolder(path: "/etc/hostname")
        }
    }
}
