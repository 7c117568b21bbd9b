import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import Testing

/// Control of a new build finds workers of an earlier one: real processes, whose build control is told is another.
@Suite(.serialized) struct SupervisorBuildTests {
    /// A control with its worker, and then another control for whom that worker is of an earlier build.
    private func upgraded() throws -> (ControlHarness, WorkerHello) {
        let control = try ControlHarness()
        let old = try #require(control.firstHello())
        #expect(old.build.hasPrefix(Version.text + "+"))
        control.close()
        control.forgetEvents()
        control.configuration.build = "another build"
        try control.open(known: [old.known])
        return (control, old)
    }

    @Test(
        "a worker of an earlier build is kept, gets a successor on another index and port, and retires when that one is there"
    )
    func retires() throws {
        let (control, old) = try upgraded()
        try #require(control.run { !$0.retiring.isEmpty })
        #expect(control.retiring == [old.worker])
        #expect(control.hellos.map(\.worker.index) == [0, 1])
        let new = try #require(control.hellos.last)
        #expect(new.endpoint.candidates.allSatisfy { !old.endpoint.candidates.map(\.port).contains($0.port) })
        #expect(control.gone.isEmpty && control.supervisor?.connectedWorkers.count == 2)
        // Told when its rooms have ended: it leaves, and nobody takes its place.
        #expect(control.send(.shutDown, to: old.worker))
        #expect(control.run { $0.gone == [old.worker] })
        #expect(control.causes == ["exited with status 0"])
        #expect(control.supervisor?.connectedWorkers == [new.worker] && control.hellos.count == 2)
    }

    @Test("the successor that dies is replaced on its index while the earlier worker goes on")
    func successorDies() throws {
        let (control, old) = try upgraded()
        try #require(control.run { !$0.retiring.isEmpty })
        let new = try #require(control.hellos.last)
        kill(new.processID, SIGKILL)
        try #require(control.run { $0.hellos.count == 3 })
        #expect(control.hellos.last?.worker.index == 1 && control.gone == [new.worker])
        #expect(control.supervisor?.connectedWorkers.contains(old.worker) == true)
    }

    @Test("with two earlier builds on a seat the next one waits for the end of one, and then takes its index")
    func seatIsFull() throws {
        let (control, old) = try upgraded()
        try #require(control.run { !$0.retiring.isEmpty })
        let second = try #require(control.hellos.last)
        control.close()
        control.forgetEvents()
        control.configuration.build = "a third build"
        try control.open(known: [old.known, second.known])
        #expect(
            control.run { control in
                control.notes.contains { $0.contains("waits until one of an earlier build has left") }
            })
        try #require(control.run { $0.hellos.count == 2 })
        #expect(control.retiring.isEmpty)
        kill(old.processID, SIGTERM)
        try #require(control.run { $0.retiring == [second.worker] })
        #expect(control.hellos.last?.worker.index == 0)
    }

    @Test("a worker of an earlier version of the link is adopted, and told everything in its words")
    func earlierLink() throws {
        let control = try ControlHarness {
            $0.build = "another build"
            // The worker that says nothing is this process.
            $0.silenceLimit = .seconds(3_600)
            $0.hangLimit = .seconds(3_600)
        }
        try #require(control.run { $0.hellos.count == 1 })
        let descriptor = lio_unix_connect(control.folder.path + "/workers.sock")
        defer { close(descriptor) }
        let hello = WorkerHello(
            worker: WorkerID(index: 1, epoch: 7), processID: getpid(),
            endpoint: WorkerEndpoint(
                candidates: [.init(address: "127.0.0.1", port: 1)], fingerprint: [UInt8](repeating: 1, count: 32)),
            transports: [
                TransportSnapshot(
                    participant: ParticipantHandle(1), room: RoomHandle(2), phase: .joined, isInterrupted: false,
                    since: Instant(nanoseconds: 0))
            ], news: [])
        let bytes = LinkMessage.hello(hello).encoded(version: 7)
        #expect(lio_stream_send(descriptor, bytes, bytes.count) == Int64(bytes.count))
        try #require(control.run { $0.retiring == [hello.worker] })
        #expect(control.supervisor?.linkVersions == [7, LinkFormat.version])
        #expect(control.send(.adopted, to: hello.worker))
        var answer = [UInt8](repeating: 0, count: 64)
        let count = lio_stream_receive(descriptor, &answer, answer.count)
        #expect(Array(answer.prefix(Int(max(0, count)))) == LinkMessage.command(.adopted).encoded(version: 7))
    }

    @Test("a worker of a version that control does not speak is refused by its number, once in the log")
    func foreignLink() throws {
        let control = try ControlHarness()
        _ = try #require(control.firstHello())
        for _ in 0..<3 {
            let descriptor = lio_unix_connect(control.folder.path + "/workers.sock")
            defer { close(descriptor) }
            let bytes: [UInt8] = [0, 0, 0, 2, 99, 2]
            #expect(lio_stream_send(descriptor, bytes, bytes.count) == 6)
            for _ in 0..<5 { control.turn(waitingFor: .milliseconds(20)) }
        }
        let told = control.notes.filter { $0.contains("version 99 of the link") }
        #expect(
            told.count == 1 && told[0].contains("process \(getpid())") && told[0].contains("7 to \(LinkFormat.version)")
        )
    }
}
