import MediaRelay
import RTPCore
import Testing

private func options(_ arguments: String...) throws(WorkerOptions.Refusal) -> WorkerOptions {
    try WorkerOptions(arguments: arguments)
}

@Suite struct WorkerPolicyTests {
    @Test("the arguments that options give make the same options")
    func argumentsRoundTrip() throws {
        var original = WorkerOptions(
            index: 3, count: 8, linkPath: "/run/relay/workers.sock", mediaAddresses: ["0.0.0.0", "::"],
            announcedAddresses: ["192.0.2.1", "2001:db8::1"], mediaPort: 4_000)
        original.gather = .off
        original.tcp = .ports(first: 443)
        original.cpu = 2
        #expect(try WorkerOptions(arguments: original.arguments) == original)
    }

    @Test(
        "wrong arguments are refused with the argument's name",
        arguments: [
            (["--index", "2", "--link", "l", "--media", "127.0.0.1"], "--index 2: there are 1 workers"),
            (["--media", "127.0.0.1"], "--link is missing"),
            (["--link", "l"], "--media: 0 addresses, 1…32 are possible"),
            (["--link", "l", "--media", "localhost"], "localhost: not an IP address"),
            (
                ["--link", "l", "--media", "0.0.0.0"],
                "0.0.0.0: clients cannot reach it, name addresses by --announce"
            ),
            (
                ["--link", "l", "--media", "127.0.0.1", "--port", "70000"],
                "--port 70000: not a number in 0…65535"
            ),
            (
                ["--link", "l", "--media", "127.0.0.1", "--port", "65535"],
                "--port 65535: 2 ports from there on do not exist"
            ),
            (
                ["--link", "l", "--media", "127.0.0.1", "--gather", "maybe"],
                "--gather maybe: not auto, on or off"
            ),
            (["--link", "l", "--media", "127.0.0.1", "--tcp", "on"], "--tcp on: not off, same or a port"),
            (
                ["--link", "l", "--media", "127.0.0.1", "--tcp", "65535"],
                "--tcp 65535: 2 ports from there on do not exist"
            ),
            (["--frobnicate", "1"], "--frobnicate: unknown argument"),
            (["--link"], "--link: its value is missing"),
        ])
    func refusedArguments(arguments: [String], message: String) {
        #expect { try WorkerOptions(arguments: arguments) } throws: { "\($0)" == message }
    }

    @Test("a worker tries its own port, its spare one, then the others")
    func ports() {
        #expect(
            MediaSockets.ports(index: 1, count: 3, first: 4_000) == [
                4_001, 4_004, 4_000, 4_002, 4_003, 4_005,
            ])
    }

    @Test("a worker whose first port is taken serves on its spare one")
    func sparePort() throws {
        let taken = try UDPSocket(binding: PeerAddress(ipv4: 0x7F00_0001, port: 0))
        let first = taken.address.port
        guard first < 65_500 else { return }
        let media = try MediaSockets(
            WorkerOptions(
                index: 0, count: 1, linkPath: "l", mediaAddresses: ["127.0.0.1"], announcedAddresses: [],
                mediaPort: first))
        #expect(media.port == first + 1)
    }

    @Test("all addresses of a worker share one port")
    func onePort() throws {
        let media = try MediaSockets(
            WorkerOptions(
                index: 0, count: 1, linkPath: "l", mediaAddresses: ["127.0.0.1", "127.0.0.2", "::1"],
                announcedAddresses: [], mediaPort: 0))
        #expect(media.sockets.map(\.address.port) == [media.port, media.port, media.port])
    }

    private func sockets(_ tcp: MediaTCP, port: UInt16 = 0) throws -> MediaSockets {
        var options = WorkerOptions(
            index: 0, count: 1, linkPath: "l", mediaAddresses: ["127.0.0.1", "::1"], announcedAddresses: [],
            mediaPort: port)
        options.tcp = tcp
        return try MediaSockets(options)
    }

    @Test("TCP has the number of the UDP port on every address, a port of its own, or is off")
    func streamPort() throws {
        let same = try sockets(.mediaPort)
        #expect(same.listeners.map(\.address.port) == [same.port, same.port])
        #expect(try sockets(.off).listeners.isEmpty)
        let own = try StreamListener(binding: PeerAddress(ipv4: 0x7F00_0001, port: 0)).address.port
        guard own < 65_500 else { return }
        #expect(try sockets(.ports(first: own)).streamPort == own)
    }

    @Test("a worker whose first port is taken by another TCP listener serves on its spare one, UDP as well")
    func spareStreamPort() throws {
        let taken = try StreamListener(binding: PeerAddress(ipv4: 0x7F00_0001, port: 0))
        let first = taken.address.port
        guard first < 65_500 else { return }
        #expect(try sockets(.ports(first: first)).streamPort == first + 1)
        let media = try sockets(.mediaPort, port: first)
        #expect(media.port == first + 1 && media.streamPort == first + 1)
    }

    @Test("an address that this machine does not have is told at once")
    func foreignAddress() {
        #expect(throws: SystemError.self) {
            try MediaSockets(
                WorkerOptions(
                    index: 0, count: 1, linkPath: "l", mediaAddresses: ["192.0.2.77"], announcedAddresses: [],
                    mediaPort: 0))
        }
    }

    @Test("a worker that lived is replaced at once, those that die at once ever later, up to 5 s")
    func backOff() {
        var backOff = RestartBackOff()
        let waits = (0..<9).map { _ in backOff.wait(afterLifeOf: .seconds(1)).milliseconds }
        #expect(waits == [0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
        #expect(backOff.wait(afterLifeOf: .seconds(10)) == .zero)
        #expect(backOff.wait(afterLifeOf: .seconds(1)) == .zero)
    }

    /// Runs 100 ms windows of `wakes` wake-ups with `packets` each at `busyPercent`, and tells whether it
    /// gathers after each.
    private func gather(
        _ mode: WorkerOptions.Gather, windows: [(wakes: Int, packets: Int, busyPercent: Int64)]
    ) -> [Bool] {
        var now = Instant(nanoseconds: 0)
        var cpu = Interval.zero
        var policy = GatherPolicy(mode: mode, now: now, cpu: cpu)
        return windows.map { window in
            cpu = cpu + GatherPolicy.window * window.busyPercent / 100
            for wake in 1...window.wakes {
                let time = now + GatherPolicy.window * Int64(wake) / Int64(window.wakes)
                policy.note(packets: window.packets, now: time) { cpu }
            }
            now += GatherPolicy.window
            return policy.isGathering
        }
    }

    @Test(
        "gathering starts when wakes bring little on a busy core, and not on an idle one or with full batches"
    )
    func gatherStarts() {
        #expect(gather(.auto, windows: [(1_000, 1, 50)]) == [true])
        #expect(gather(.auto, windows: [(1_000, 1, 30)]) == [false])
        #expect(gather(.auto, windows: [(1_000, 20, 90)]) == [false])
    }

    @Test(
        "gathering goes on at the halved load it causes, and ends when it brings nothing or batches are full")
    func gatherEnds() {
        #expect(gather(.auto, windows: [(1_000, 1, 50), (300, 7, 22), (300, 1, 22)]) == [true, true, false])
        #expect(gather(.auto, windows: [(1_000, 1, 50), (300, 40, 80)]) == [true, false])
        #expect(gather(.auto, windows: [(1_000, 1, 50), (300, 7, 5)]) == [true, false])
    }

    @Test("the flag sets or forbids gathering whatever the load", arguments: [WorkerOptions.Gather.on, .off])
    func gatherFlag(mode: WorkerOptions.Gather) {
        let expected = mode == .on
        #expect(gather(mode, windows: [(1_000, 1, 90), (10, 60, 1)]) == [expected, expected])
    }

    @Test("a kind of send error is logged at most once a minute, with what came together since")
    func sendErrorLog() {
        let errors = SendErrorCounters()
        var logged = LoggedErrors()
        var now = Instant(nanoseconds: 0)
        errors.count(.bufferFull, times: 3)
        #expect(logged.lines(for: errors, now: now) == ["3 packets were not sent: buffer-full"])
        errors.count(.bufferFull)
        errors.count(.refused, times: 2)
        now += .seconds(59)
        #expect(logged.lines(for: errors, now: now) == ["2 packets were not sent: refused"])
        now += .seconds(1)
        #expect(logged.lines(for: errors, now: now) == ["1 packets were not sent: buffer-full"])
    }
}
