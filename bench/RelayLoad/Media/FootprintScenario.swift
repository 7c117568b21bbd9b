import Foundation
import MediaRelay
import RTPCore
import RelayLoadKit

/// What participants cost who do nothing yet: memory of 10,000 prepared ones (ICE and DTLS done, offers with video), the CPU of
/// 1,000 of them without media, the CPU of a set-up; and the memory of 500 joined calls with video.
enum FootprintScenario {
    private static let idlers = 1_000
    private static let joinedCalls = 500

    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        try await prepared(loop, options, report)
        try await joined(loop, options, report)
        report.count("footprint", passed: 2, failed: 0, faults: [])
    }

    // MARK: Prepared

    private static func prepared(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let total = options.count(short: 100, long: 10_000) & ~1
        let idle = min(idlers, total)
        // A worker has room for 8,192; control chooses the one that has least.
        let workers = (total + 8_191) / 8_192
        let bench = try await LoadBench(
            loop, options, report, workers: workers, serving: ["--transports-per-worker", "8192"])
        do {
            let fleet = try MediaFleet(bench)
            let room = MediaFleet.Room(media: .video, joins: false)
            // Once around, so that threads, statements and pools are there.
            try await fleet.grow(to: 2 * 10, in: room)
            let ids = bench.relay.workerIDs()
            let before = (resident(ids), ProcessStatus(bench.relay.processID).residentBytes)
            let times = ids.map { ThreadTimes($0) }
            let begun = MonotonicClock.now()
            try await fleet.grow(to: idle, in: room)
            let seconds = Double((MonotonicClock.now() - begun).nanoseconds) / 1e9
            let setUps = Double(idle - 20)
            let after = ids.map { ThreadTimes($0) }
            func cpu(_ name: String) -> Double {
                zip(after, times).reduce(0) { $0 + $1.0.nanoseconds(since: $1.1, named: name) }
            }
            tellSetUps(
                setUps, seconds: seconds, handshaker: cpu("handshake"), worker: cpu(""), isShort: options.isShort,
                report)
            try await idling(bench, ids, idle)
            try await fleet.grow(to: total, in: room)
            await loop.sleep(for: .seconds(options.isShort ? 1 : 12))
            let people = Double(fleet.clients.count - 20)
            let now = (resident(ids), ProcessStatus(bench.relay.processID).residentBytes)
            let each = Double(now.0 - before.0) / people
            let control = Double(now.1 - before.1) / people
            report.line(
                "footprint: \(fleet.clients.count) prepared participants: \(LoadReport.number(each / 1_024)) KB each in the worker, "
                    + "\(LoadReport.number(control / 1_024)) KB in control")
            let context = [("participants", "\(fleet.clients.count)"), ("workers", "\(workers)")]
            report.figure("rss_prepared", each, "bytes", context)
            report.figure("rss_prepared_control", control, "bytes", context)
            fleet.stop()
        } catch {
            await bench.stop()
            throw error
        }
        await bench.stop()
    }

    private static func resident(_ ids: [Int32]) -> Int { ids.reduce(0) { $0 + ProcessStatus($1).residentBytes } }

    private static func idling(_ bench: LoadBench, _ ids: [Int32], _ count: Int) async throws {
        let seconds = bench.options.isShort ? 1.0 : 20
        await bench.loop.sleep(for: .seconds(1))
        let before = ids.map { ThreadTimes($0) }
        let began = MonotonicClock.now()
        await bench.loop.sleep(for: .nanoseconds(Int64(seconds * 1e9)))
        let lasted = Double((MonotonicClock.now() - began).nanoseconds)
        let after = ids.map { ThreadTimes($0) }
        let share = zip(after, before).reduce(0) { $0 + $1.0.nanoseconds(since: $1.1) } / lasted * 100
        let wakes = zip(after, before).reduce(0) { $0 + $1.0.turns(since: $1.1) } / lasted * 1e9
        bench.report.line(
            "footprint: \(count) prepared participants without media: \(LoadReport.number(share)) % of a core, "
                + "\(LoadReport.number(wakes)) wake-ups a second")
        bench.report.figure(
            "idle_core_percent", share * 1_000 / Double(count), "percent",
            [("participants", "\(count)"), ("wakes_per_second", LoadReport.number(wakes))])
    }

    private static func tellSetUps(
        _ count: Double, seconds: Double, handshaker: Double, worker: Double, isShort: Bool, _ report: LoadReport
    ) {
        let perCore = count * 1e9 / max(1, handshaker)
        report.line(
            "footprint: \(LoadReport.number(count / seconds)) set-ups a second with clients on the same machine; handshaker "
                + "\(LoadReport.number(handshaker / count / 1_000)) µs of CPU each (\(LoadReport.number(perCore)) a second and core), "
                + "whole worker \(LoadReport.number(worker / count / 1_000)) µs")
        report.figure("setups_per_second", count / seconds, "1/s")
        report.figure("handshakes_per_core", perCore, "1/s")
        report.figure("setup_worker_us", worker / count / 1_000, "us")
        guard !isShort, let limit = OpenSSLSpeed.measure() else {
            if !isShort { report.say("     openssl speed is not there: no limit for handshakes") }
            return
        }
        report.line(
            "footprint: by openssl speed a core could do \(LoadReport.number(limit)) (one signature, one verification, two "
                + "operations on X25519): ratio \(LoadReport.short(perCore / limit))")
        report.figure("handshake_ratio_to_openssl", perCore / limit, "ratio", [("openssl", LoadReport.number(limit))])
    }

    // MARK: Joined

    private static func joined(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) async throws {
        let calls = options.isShort ? 10 : joinedCalls
        let rig = try await MediaRig(loop, options, report)
        do {
            try await rig.prepare(clients: 20, .audioVideo)
            let relay = try rig.relay()
            rig.mill.use(relay.legs)
            rig.mill.schedule(0..<20, .audioVideo, seed: 1)
            rig.mill.run(until: MonotonicClock.now() + .seconds(1))
            let before = ProcessStatus(relay.processID).residentBytes
            let controlBefore = ProcessStatus(rig.bench.relay.processID).residentBytes
            try await rig.prepare(clients: 20 + 2 * calls, .audioVideo)
            await loop.sleep(for: .seconds(1))
            let silent = ProcessStatus(relay.processID).residentBytes
            // A fifth of the usual rate, so that one machine carries 1,000 clients: what is kept is the same.
            let everybody = try rig.relay()
            rig.mill.use(everybody.legs)
            rig.mill.schedule(20..<20 + 2 * calls, .audioVideo, slowedBy: options.isShort ? 1 : 5, seed: 2)
            rig.mill.reset()
            rig.mill.run(until: MonotonicClock.now() + .seconds(options.isShort ? 1 : 6))
            let talking = ProcessStatus(relay.processID).residentBytes
            let each = Double(talking - before) / Double(calls)
            let kb = { (bytes: Double) in LoadReport.number(bytes / 1_024) }
            report.line(
                "footprint: \(calls) joined calls with video: \(kb(each)) KB each, the packet history that they need "
                    + "included; \(kb(Double(silent - before) / Double(calls))) KB before their first "
                    + "packet; in control \(kb(Double(ProcessStatus(rig.bench.relay.processID).residentBytes - controlBefore) / Double(calls))) KB"
            )
            let context = [("calls", "\(calls)"), ("packets", "\(rig.mill.received)")]
            report.figure("rss_joined_call", each, "bytes", context)
            report.figure("rss_joined_call_silent", Double(silent - before) / Double(calls), "bytes", context)
        } catch {
            await rig.stop()
            throw error
        }
        await rig.stop()
    }
}

/// What `openssl speed` says that a core can do of a server's part of a handshake: it signs, verifies the client's signature, makes
/// a key of the exchange and uses it.
enum OpenSSLSpeed {
    /// Handshakes per second; nil without the program.
    static func measure() -> Double? {
        guard let text = output(["speed", "-seconds", "1", "ecdsap256", "ecdhx25519"]) else { return nil }
        return perSecond(text)
    }

    /// Reads the two last lines of its table: signatures and verifications a second, operations a second.
    static func perSecond(_ text: String) -> Double? {
        var (sign, verify, exchange) = (0.0, 0.0, 0.0)
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.contains("ecdsa (nistp256)"), words.count >= 2 {
                sign = Double(words[words.count - 2]) ?? 0
                verify = Double(words[words.count - 1]) ?? 0
            }
            if line.contains("ecdh (X25519)") { exchange = words.last.flatMap { Double($0) } ?? 0 }
        }
        guard sign > 0, verify > 0, exchange > 0 else { return nil }
        return 1 / (1 / sign + 1 / verify + 2 / exchange)
    }

    private static func output(_ arguments: [String]) -> String? {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return nil }
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return process.terminationStatus == 0 ? String(decoding: data, as: UTF8.self) : nil
    }
}
