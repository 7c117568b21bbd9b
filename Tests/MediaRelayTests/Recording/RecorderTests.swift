import COpus
import Foundation
import Glibc
import RTPCore
import Testing

@testable import MediaRelay
@testable import RelayCore

@Suite("Recorder: files, disks, mixes") struct RecorderTests {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("recorder-\(UUID())").path

    private func order(_ number: UInt64 = 1, folder name: String = "r_rec_1", mix: Bool = false) -> RecordingOrder {
        RecordingOrder(
            recording: RecordingHandle(number), room: RoomHandle(9), id: "rec_\(number)", roomName: "r", folder: name,
            mix: mix, byteLimit: 1 << 30, duration: .seconds(3_600))
    }

    /// Opus of a tone, `seconds` of 20 ms packets.
    private func tone(_ frequency: Double, seconds: Double) -> [[UInt8]] {
        let tone = Tone(name: "t", frequencies: [frequency], bursts: [Int(seconds * 1_000)], pause: .zero)
        return tone.sound()?.packets ?? []
    }

    private func put(
        _ packets: [[UInt8]], of participant: UInt64, from start: Int, into batch: RecordedBatch, at now: Instant,
        recording: UInt64 = 1
    ) {
        for (number, packet) in packets.enumerated() {
            let index = UInt64(start + number)
            packet.withUnsafeBufferPointer { bytes in
                guard let base = bytes.baseAddress else { return }
                batch.append(
                    RecordedEntry(
                        recording: RecordingHandle(recording), participant: ParticipantHandle(participant),
                        arrival: now + .milliseconds(Int64(index) * 20), index: index, ntp: NTPTime(rawValue: 0),
                        ourNTP: NTPTime(rawValue: 0), timestamp: UInt32(index) * 960, ssrc: UInt32(participant),
                        byteCount: UInt16(packet.count), section: 0, kind: .packet, codec: .opus, marker: false),
                    base, byteCount: packet.count)
            }
        }
    }

    private func results(_ recorder: RecorderThread, atLeast count: Int = 1) -> [RecordingReport] {
        var reports: [RecordingReport] = []
        var batch: [RecorderThread.Result] = []
        while reports.count < count {
            var waiting = pollfd(fd: recorder.resultDescriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, 10_000) > 0 else { break }
            recorder.takeResults(into: &batch)
            for case .ended(let report, _) in batch { reports.append(report) }
        }
        return reports
    }

    private func index(_ name: String = "r_rec_1") throws -> JSONValue {
        try JSONReader.read(Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)/recording.json"))))
    }

    private func makeRecorder(_ path: String? = nil) throws -> RecorderThread {
        try RecorderThread(
            folder: path ?? folder, byteLimit: 1 << 40, clockOrigin: NTPTime(rawValue: 1 << 40),
            log: WorkerLog(index: 0, format: .text))
    }

    @Test("what was posted before the stop is on disk when its report comes, with names, modes and an index")
    func whole() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let recorder = try makeRecorder()
        let now = MonotonicClock.now()
        recorder.receive(.record(order(mix: true)), now: now)
        for (handle, uid) in [(1, "alice"), (2, "ben")] {
            recorder.receive(
                .nameRecorded(
                    RecordingHandle(1),
                    RecordedParticipant(
                        handle: ParticipantHandle(UInt64(handle)), id: "p_\(uid)", uid: uid, device: "d")),
                now: now)
        }
        #expect(recorder.recordings == [RecordingHandle(1)])
        let batch = RecordedBatch()
        put(tone(700, seconds: 2), of: 1, from: 0, into: batch, at: now)
        // Half a second later.
        put(tone(1_000, seconds: 1), of: 2, from: 25, into: batch, at: now)
        recorder.post(batch)
        #expect(batch.isEmpty)
        recorder.receive(.stopRecording(RecordingHandle(1)), now: now)
        let report = try #require(results(recorder).first)
        #expect(report.end == .stopped && report.droppedPackets == 0 && recorder.recordings.isEmpty)
        #expect(report.files.map(\.name) == ["mix.ogg", "01-alice-audio.ogg", "02-ben-audio.ogg"])
        #expect(report.files.map(\.uid) == ["", "alice", "ben"])
        #expect((490...510).contains(report.files[2].offsetMs - report.files[1].offsetMs))
        for file in report.files {
            var status = stat()
            #expect(stat("\(folder)/r_rec_1/\(file.name)", &status) == 0 && status.st_mode & 0o777 == 0o600)
            #expect(Int64(status.st_size) == file.byteCount)
            let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/r_rec_1/\(file.name)")))
            let packets = try OggOpusFile.packets(bytes)
            let samples = packets.reduce(0) { $0 + Int(OpusTOC($1.span)?.timestampUnits ?? 0) }
            #expect(Int64(samples / 48) == file.durationMs)
        }
        // Trailing packets included, the longer one is 2.06 s.
        #expect((2_000...2_120).contains(report.files[0].durationMs))
        let index = try index()
        #expect(index["state"] == .string("ended") && index["reason"] == .string("stopped"))
        #expect(access("\(folder)/r_rec_1/.reserve", F_OK) != 0)
        let loud = try loudness("\(folder)/r_rec_1/mix.ogg")
        #expect(loud[0...20].allSatisfy { $0.0 > 2_000 && $0.1 < 500 }, "alice alone at first: \(loud.prefix(21))")
        #expect(loud[30...60].allSatisfy { $0.0 > 2_000 && $0.1 > 2_000 }, "both then")
        recorder.stop()
    }

    /// Amplitudes of 700 and 1000 Hz in each 20 ms.
    private func loudness(_ path: String) throws -> [(Double, Double)] {
        let packets = try OggOpusFile.packets(Array(try Data(contentsOf: URL(fileURLWithPath: path))))
        guard let decoder = opus_decoder_create(48_000, 1, nil) else { return [] }
        defer { opus_decoder_destroy(decoder) }
        return packets.map { packet in
            var samples = [Int16](repeating: 0, count: 960)
            _ = opus_decode(decoder, packet, Int32(packet.count), &samples, 960, 0)
            func strength(_ frequency: Double) -> Double {
                var (one, two) = (0.0, 0.0)
                let factor = 2 * cos(2 * .pi * frequency / 48_000)
                for sample in samples { (one, two) = (Double(sample) + factor * one - two, one) }
                return 2 * (max(0, one * one + two * two - factor * one * two)).squareRoot() / 960
            }
            return (strength(700), strength(1_000))
        }
    }

    @Test("a folder that can not be made ends the recording as failed, and the recorder goes on")
    func noFolder() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Data().write(to: URL(fileURLWithPath: folder))
        let recorder = try makeRecorder(folder + "/below")
        recorder.receive(.record(order()), now: MonotonicClock.now())
        #expect(results(recorder).map(\.end) == [.failed])
        recorder.receive(.record(order(2)), now: MonotonicClock.now())
        #expect(results(recorder).map(\.end) == [.failed])
        recorder.stop()
    }

    @Test("no recording writes into another's folder, nor over what is there")
    func noOverwriting() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let recorder = try makeRecorder()
        recorder.receive(.record(order()), now: MonotonicClock.now())
        recorder.receive(.record(order(2)), now: MonotonicClock.now())
        #expect(results(recorder).map(\.recording) == [RecordingHandle(2)])
        recorder.receive(.stopRecording(RecordingHandle(1)), now: MonotonicClock.now())
        #expect(results(recorder).map(\.end) == [.stopped])
        recorder.stop()
    }

    @Test("the end of the worker finishes what it records, and tells it")
    func stop() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let recorder = try makeRecorder()
        let now = MonotonicClock.now()
        recorder.receive(.record(order()), now: now)
        let batch = RecordedBatch()
        put(tone(700, seconds: 1), of: 1, from: 0, into: batch, at: now)
        recorder.post(batch)
        recorder.stop()
        let reports = results(recorder)
        #expect(reports.map(\.end) == [.stopped] && reports[0].files.count == 1 && reports[0].byteCount > 1_000)
    }

    @Test("what a dead worker left is marked as ended by the next one; what a living one writes is let be")
    func recovery() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        do {
            let left = try RecordingFolder(below: folder, name: "r_rec_1")
            try left.begin(0, name: "01-alice-audio.ogg")
            try left.append([1, 2, 3], to: 0)
            try left.writeIndex(
                JSONText.of(
                    .object([
                        .init("recordingId", .string("rec_1")), .init("state", .string("recording")),
                        .init(
                            "files",
                            .array([
                                .object([.init("file", .string("01-alice-audio.ogg")), .init("bytes", .integer(1))])
                            ])),
                    ])))
        }
        let alive = try RecordingFolder(below: folder, name: "s_rec_2")
        #expect(RecordingRecovery.recover(folder, nowMs: 0) == ["r_rec_1"])
        let found = try index()
        #expect(found["state"] == .string("ended") && found["reason"] == .string("worker-lost"))
        guard case .array(let files)? = found["files"] else { return #expect(Bool(false), "\(found)") }
        #expect(files[0]["bytes"] == .integer(3))
        #expect(RecordingRecovery.recover(folder, nowMs: 0).isEmpty, "once")
        #expect(RecordingRecovery.byteCount(of: folder) > 64 << 10, "the living one's reserve counts")
        alive.close()
    }

    @Test("a queue that is full drops and counts, by recording, and takes what comes after")
    func full() throws {
        let queue = try RecorderQueue()
        let batch = RecordedBatch()
        let payload = [UInt8](repeating: 7, count: 1_200)
        var posted = 0
        while posted < 40_000 {
            put(
                [payload, payload, payload, payload, payload], of: 1, from: posted, into: batch,
                at: Instant(nanoseconds: 0))
            queue.post(batch)
            posted += 5
        }
        var load = RecorderQueue.Load()
        queue.take(into: &load)
        var taken = 0
        RecordedBatch.forEach(in: load.bytes) { _, _ in taken += 1 }
        #expect(load.byteCount <= RecorderQueue.byteCapacity && taken > 20_000)
        #expect(load.dropped == [RecordingHandle(1): UInt64(posted - taken)])
        put([payload], of: 1, from: 0, into: batch, at: Instant(nanoseconds: 0))
        queue.post(batch)
        queue.take(into: &load)
        #expect(load.byteCount > 0 && load.dropped.isEmpty)
        queue.close(&load)
    }
}
