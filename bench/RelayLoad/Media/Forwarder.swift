import CLimit
import CLinuxIO
import Foundation
import MediaRelay
import RTPCore
import RelayCore
import RelayLoadKit
import RelayTesting

/// A process that forwards the clients' media: the relay's worker, or the limit.
struct Forwarder {
    var name: String
    var processID: Int32
    /// What the clients send and get by way of it, by client.
    var legs: [MediaLeg?]

    /// The thread that forwards is the first one of either process.
    func pin(to cpu: Int) { _ = limit_pin_thread(processID, Int32(cpu)) }
    /// Whether it was permitted.
    @discardableResult func setRealTime(_ isRealTime: Bool) -> Bool {
        limit_set_real_time(processID, isRealTime ? 1 : 0) == 0
    }

    /// The only worker. `known`: the legs of the first clients, whose numbers go on.
    static func relay(_ fleet: MediaFleet, known: [MediaLeg?]) throws -> Forwarder {
        guard let worker = fleet.bench.relay.workerIDs().first else { throw LoadFailure("no worker runs") }
        let legs = known + fleet.clients.dropFirst(known.count).map { MediaLeg(serverLegOf: $0) }
        guard legs.allSatisfy({ $0?.keys.profile == .aeadAES128GCM }) else {
            throw LoadFailure("clients without AES-128-GCM keys")
        }
        return Forwarder(name: "relay", processID: worker, legs: legs)
    }
}

/// What the system has counted of a process's threads.
struct ThreadTimes {
    /// By thread: nanoseconds on a processor, and how often it was given one.
    private(set) var threads: [Int32: (nanoseconds: Int64, turns: Int64, name: String)] = [:]

    init(_ processID: Int32) {
        guard let directory = opendir("/proc/\(processID)/task") else { return }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard let thread = Int32(name) else { continue }
            let text = String(decoding: ProcessStatus.read("/proc/\(processID)/task/\(name)/schedstat"), as: UTF8.self)
            let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" }).compactMap { Int64($0) }
            let comm = String(decoding: ProcessStatus.read("/proc/\(processID)/task/\(name)/comm"), as: UTF8.self)
            if words.count == 3 { threads[thread] = (words[0], words[2], comm.filter { $0 != "\n" }) }
        }
    }

    /// Nanoseconds of all threads whose name begins so, since an earlier look.
    func nanoseconds(since earlier: ThreadTimes, named prefix: String = "") -> Double {
        var sum: Int64 = 0
        for (id, thread) in threads where thread.name.hasPrefix(prefix) {
            sum += thread.nanoseconds - (earlier.threads[id]?.nanoseconds ?? 0)
        }
        return Double(sum)
    }

    /// How often they were given a processor, since an earlier look: about once a wake-up.
    func turns(since earlier: ThreadTimes) -> Double {
        var sum: Int64 = 0
        for (id, thread) in threads { sum += thread.turns - (earlier.threads[id]?.turns ?? 0) }
        return Double(sum)
    }
}

/// The limit as a process of its own, started for the clients that there are.
final class LimitProcess {
    let forwarder: Forwarder
    private let folder: String

    init(_ fleet: MediaFleet, binary: String, gather: String = "auto") async throws {
        var random = RandomSource.seeded(fleet.bench.options.seed &+ 99)
        let legs = fleet.clients.map { MediaLeg(limitLegOf: $0, &random) }
        folder = fleet.bench.relay.folder
        let path = folder + "/limit-table"
        try Self.table(legs, port: fleet.set.port.port).write(toFile: path, atomically: false, encoding: .utf8)
        let output = folder + "/limit-output"
        let file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        defer { Glibc.close(file) }
        let result = try RelayProcess.spawn([binary, path, gather], output: file)
        let limit = MonotonicClock.now() + .seconds(20)
        while true {
            let text = String(decoding: ProcessStatus.read(output), as: UTF8.self)
            if text.hasPrefix("port "), text.hasSuffix("\n"), let port = UInt16(text.dropFirst(5).dropLast()) {
                for leg in legs { leg.target = PeerAddress(ipv4: 0x7F00_0001, port: port) }
                forwarder = Forwarder(name: "limit", processID: result, legs: legs)
                return
            }
            var status: Int32 = 0
            guard lio_reap(result, &status) == 0, MonotonicClock.now() < limit else {
                throw LoadFailure("the limit did not start: \(text)")
            }
            await fleet.bench.loop.sleep(for: .milliseconds(5))
        }
    }

    func stop() {
        kill(forwarder.processID, SIGKILL)
        var status: Int32 = 0
        while lio_reap(forwarder.processID, &status) == 0 { usleep(1_000) }
    }

    /// Everybody's media goes to everybody else of the room.
    private static func table(_ legs: [MediaLeg], port: UInt16) -> String {
        func hex(_ bytes: [UInt8]) -> String {
            bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }
        func hex(_ number: some BinaryInteger) -> String { String(number, radix: 16) }
        var lines = ["participants \(legs.count)"]
        for leg in legs {
            let keys = leg.keys
            lines.append(
                "add \(hex(LoadPort.address(leg.client.number))) \(hex(port)) \(hex(keys.sendKey)) \(hex(keys.sendSalt)) "
                    + "\(hex(keys.receiveKey)) \(hex(keys.receiveSalt))")
        }
        for leg in legs {
            for (stream, outgoing) in leg.outgoing.enumerated() {
                for mate in leg.client.roommates where mate != leg.client.number {
                    lines.append(
                        "connect \(hex(leg.client.number)) \(hex(outgoing.ssrc)) \(hex(mate)) "
                            + "\(hex(0x5000_0000 + 2 * leg.client.number + stream)) \(hex(outgoing.payloadType))")
                }
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
