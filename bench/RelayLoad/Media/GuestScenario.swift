import CLinuxIO
import Foundation
import Glibc
import MediaRelay
import RTPCore
import RelayLoadKit

/// A room of eight, of which six are the fleet's clients and two are real ones that whoever runs this program brings: they are invited
/// by a line of JSON on standard output (`{"invitation":{"http":PORT,"room":ID,"tokens":[…]}}`), and the load begins with a line on
/// standard input, once they see everybody. The worker's CPU is held against what forwarding alone predicts, as in `GroupScenario`: what
/// the limit uses for eight of the fleet, times what the relay costs beside it in calls of two; a room of eight of the
/// fleet is measured in turn, so that what the guests change shows. The fleet shares its processor with them: nothing spins.
enum GuestScenario {
    static let name = "guests"
    private static let size = 8
    private static let guests = 2

    /// One window of the room with guests, seen whole.
    private struct Mixed {
        /// CPU of the worker for each packet that anybody got.
        var nanosecondsPerPacket: Double
        var packetsPerSecond: Double
        /// What one guest sends.
        var guestPacketsPerSecond: Double

        /// The fleet knows what it sent, and its receivers what came: each gets what the other five and both guests send.
        init(_ window: LoadWindow) {
            let seats = Double(size - guests)
            let own = window.sentShare * seats * Double(MediaProfile.audioVideo.packetsPerSecond)
            let foreign = max(0, (window.packetsPerSecond - own * (seats - 1)) / seats)
            packetsPerSecond = (own + foreign) * Double(size - 1)
            nanosecondsPerPacket = window.busy * 1e9 / max(1, packetsPerSecond)
            guestPacketsPerSecond = foreign / Double(guests)
        }
    }

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let rate = Double(size * (size - 1) * MediaProfile.audioVideo.packetsPerSecond)
        let pairs = options.count ?? 7
        let calls = try await GroupScenario.callsOfTwo(loop, options, report, rate: rate, spins: false)
        let rig = try await MediaRig(loop, options, report, spins: false)
        do {
            try await measure(rig, options, report, calls, rate: rate, pairs: pairs)
        } catch {
            await rig.stop()
            throw error
        }
        await rig.stop()
    }

    private static func measure(
        _ rig: MediaRig, _ options: LoadOptions, _ report: LoadReport, _ calls: DuelResult, rate: Double, pairs: Int
    ) async throws {
        let whole = MediaFleet.Room(kind: "group", media: .video, size: size)
        try await rig.fleet.grow(to: size, in: whole, concurrency: 1)
        var mixed = whole
        mixed.guests = guests
        try await rig.fleet.grow(to: size + mixed.seats, in: mixed, concurrency: 1)
        let (relay, limit) = (try rig.relay(), try await rig.limit())
        // The guests come while the others send: they wait for pictures.
        try await seat(rig, relay, report)
        rig.pin()
        var (results, full) = (DuelResult(), [LoadWindow]())
        var rooms: [Mixed] = []
        for pair in 0..<pairs {
            let seed = UInt64(pair) &* 7_919 &+ 13
            var withGuests = duel(rig, size..<size + mixed.seats, receivers: mixed.seats - 1)
            withGuests.seconds = 3
            let window = withGuests.window(relay, seed: seed)
            rooms.append(Mixed(window))
            results.relay.append(window)
            // Short, so that the guests' pictures do not stand still for so long that the relay takes them for gone.
            var eight = duel(rig, 0..<size, receivers: size - 1)
            eight.seconds = 1.3
            results.limit.append(eight.window(limit, seed: seed))
            full.append(eight.window(relay, seed: seed))
            await rig.bench.loop.sleep(for: .milliseconds(20))
            report.progress(
                MonotonicClock.now(),
                "guests: round \(pair + 1) of \(pairs), \(LoadReport.number(rooms[pair].nanosecondsPerPacket)) ns a packet"
            )
        }
        tell(report, rate, rooms, results, full, calls)
    }

    private static func duel(_ rig: MediaRig, _ clients: Range<Int>, receivers: Int) -> Duel {
        var duel = rig.duel(.audioVideo, clients)
        duel.receivers = receivers
        return duel
    }

    /// Invites the guests and sends until they say that they see.
    private static func seat(_ rig: MediaRig, _ relay: Forwarder, _ report: LoadReport) async throws {
        guard let room = rig.fleet.clients.last?.room else { throw LoadFailure("nobody is in the room") }
        let tokens = (0..<guests).map { "\"\(rig.bench.http.token("guest-\($0)", room))\"" }.joined(separator: ",")
        let invitation =
            "{\"invitation\":{\"http\":\(rig.bench.relay.httpPort),\"room\":\"\(room)\",\"tokens\":[\(tokens)]}}\n"
        FileHandle.standardOutput.write(Data(invitation.utf8))
        _ = fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK)
        let limit = MonotonicClock.now() + .seconds(60)
        var byte: UInt8 = 0
        while MonotonicClock.now() < limit {
            let count = read(STDIN_FILENO, &byte, 1)
            if count == 1, byte == UInt8(ascii: "\n") { return }
            guard count != 0 else { throw LoadFailure("whoever brings the guests has ended") }
            var warm = duel(rig, size..<rig.fleet.clients.count, receivers: size - guests - 1)
            warm.seconds = 0.2
            warm.isRealTime = false
            _ = warm.window(relay, seed: 1)
            await rig.bench.loop.sleep(for: .milliseconds(5))
            report.progress(MonotonicClock.now(), "guests: waiting for them")
        }
        throw LoadFailure("no guests within 60 s")
    }

    private static func tell(
        _ report: LoadReport, _ rate: Double, _ rooms: [Mixed], _ results: DuelResult, _ full: [LoadWindow],
        _ calls: DuelResult
    ) {
        let limit = DuelResult.median(results.limit, \.nanosecondsPerPacket)
        let predicted = limit * calls.ratio
        let used = rooms.map(\.nanosecondsPerPacket).median
        let alone = DuelResult.median(full, \.nanosecondsPerPacket)
        let came = rooms.map(\.packetsPerSecond).median
        let each = rooms.map(\.guestPacketsPerSecond).median
        report.line(
            "guests: \(LoadReport.number(used)) ns a packet at \(LoadReport.number(came)) packets/s, eight of the fleet "
                + "\(LoadReport.number(alone)), limit \(LoadReport.number(limit)), calls of two \(LoadReport.short(calls.ratio)) of the "
                + "limit: \(LoadReport.short(used / max(1, predicted))) of \(LoadReport.number(predicted)) predicted")
        report.figure(
            "guests_cpu_to_predicted", used / max(1, predicted), "ratio",
            [
                ("ns", LoadReport.number(used)), ("predicted_ns", LoadReport.number(predicted)),
                ("limit_ns", LoadReport.number(limit)), ("calls_ratio", LoadReport.number(calls.ratio)),
                ("fleet_ns", LoadReport.number(alone)), ("packets_per_second", LoadReport.number(came)),
                ("guest_packets_per_second", LoadReport.number(each)),
            ])
        let gaps = results.relay.reduce(0) { $0 + $1.gaps }
        var faults: [String] = []
        if each < 60 { faults.append("guests send \(LoadReport.number(each)) packets/s each: no picture") }
        if came < 0.9 * rate * Double(size - guests) / Double(size) {
            faults.append("\(LoadReport.number(came)) packets/s came")
        }
        if results.limit.contains(where: { $0.unopened > 0 }) || full.contains(where: { $0.unopened > 0 }) {
            faults.append("packets did not open")
        }
        report.line("guests: \(gaps) gaps")
        report.count(name, passed: faults.isEmpty ? 1 : 0, failed: faults.isEmpty ? 0 : 1, faults: faults)
    }
}
