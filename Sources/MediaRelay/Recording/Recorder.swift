import Foundation
import RTPCore
import RelayCore

/// What the recorder's thread runs: the recordings that are being made, their folders, the mixes of those that are over. Confined to that thread.
final class Recorder {
    private static let indexInterval = Interval.seconds(5)
    /// How often the size of all recordings is looked at.
    private static let sizeInterval = Interval.seconds(10)

    private let folder: String
    private let byteLimit: Int64
    private let clockOrigin: NTPTime
    private let log: WorkerLog
    private let shared: RecorderThread.Shared
    private var running: [RecordingHandle: Recording] = [:]
    private var mixing: [RecordingHandle: (recording: Recording, mix: MixThread)] = [:]
    private var nextSize: Instant?
    private var counters = RecorderThread.Counters()

    init(
        folder: String, byteLimit: Int64, clockOrigin: NTPTime, log: WorkerLog, shared: RecorderThread.Shared
    ) {
        self.folder = folder
        self.byteLimit = byteLimit
        self.clockOrigin = clockOrigin
        self.log = log
        self.shared = shared
    }

    /// Marks what a process that died was recording as ended.
    func recover() {
        for name in RecordingRecovery.recover(folder, nowMs: WallClock.nowMs) {
            log.line("recording \(name) was cut off by its worker's end: marked as ended")
        }
    }

    var deadline: Instant {
        let next = running.values.map(\.deadline).min() ?? .distantFuture
        return min(next, nextSize ?? .distantFuture)
    }

    // MARK: In

    func receive(_ load: RecorderQueue.Load, now: Instant) {
        for (order, at) in load.orders { begin(order, at: at) }
        for (handle, participant) in load.names { running[handle]?.recorder.name(participant) }
        RecordedBatch.forEach(in: load.bytes) { entry, payload in
            running[entry.recording]?.recorder.receive(entry, payload: payload)
        }
        for (handle, count) in load.dropped {
            running[handle]?.recorder.droppedPackets += count
            counters.droppedPackets += count
        }
        for handle in load.stops where running[handle] != nil { end(handle, .stopped, now: now) }
        takeMixes(now: now)
    }

    private func begin(_ order: RecordingOrder, at time: Instant) {
        guard running[order.recording] == nil else { return }
        let startedNTP = NTPTime(
            rawValue: clockOrigin.rawValue &+ NTPTime(time).rawValue)
        let recorder = RoomRecorder(order, now: time, startedNTP: startedNTP)
        let startedAtMs = WallClock.nowMs - (MonotonicClock.now() - time).milliseconds
        do throws(RecordingFolder.Failure) {
            let recording = Recording(
                recorder, folder: try RecordingFolder(below: folder, name: order.folder), startedAtMs: startedAtMs,
                now: time)
            running[order.recording] = recording
            try recording.writeIndex(.recording, now: time)
            if nextSize == nil { nextSize = time }
        } catch {
            log.line("recording \(order.id): \(error)")
            running.removeValue(forKey: order.recording)?.folder.discard()
            tell(
                RecordingReport(
                    recording: order.recording, room: order.room, end: error.isDiskFull ? .diskFull : .failed),
                at: time)
        }
    }

    // MARK: Time

    func advance(to now: Instant) {
        for (handle, recording) in running {
            do throws(RecordingFolder.Failure) {
                counters.byteCount += try recording.advance(to: now)
                for wish in recording.recorder.takeKeyFrameWishes() {
                    shared.results.post(.keyFrame(wish.participant, section: wish.section))
                }
                if let reason = recording.recorder.end { end(handle, reason, now: now) }
            } catch {
                log.line("recording \(recording.recorder.order.id): \(error)")
                end(handle, error.isDiskFull ? .diskFull : .failed, now: now)
            }
        }
        if let due = nextSize, due <= now { lookAtSize(now: now) }
        counters.running = running.count
        shared.counters = counters
    }

    private func lookAtSize(now: Instant) {
        nextSize = running.isEmpty ? nil : now + Self.sizeInterval
        guard !running.isEmpty, RecordingRecovery.byteCount(of: folder) >= byteLimit else { return }
        for handle in running.keys { end(handle, .folderLimit, now: now) }
    }

    // MARK: Ends

    private func end(_ handle: RecordingHandle, _ reason: RecordingEnd, now: Instant) {
        guard let recording = running.removeValue(forKey: handle) else { return }
        if let fault = recording.finish(reason, now: now) {
            log.line("recording \(recording.recorder.order.id): \(fault)")
            recording.fault = fault.isDiskFull ? .diskFull : .failed
        }
        let isWhole = recording.end != .diskFull && recording.end != .failed
        guard recording.recorder.order.mix, isWhole else { return close(recording, now: now) }
        do throws(SystemError) {
            let mix = try MixThread(recording.mixInputs, in: recording.folder, wakeUp: shared.queue.wakeUp)
            mixing[handle] = (recording, mix)
        } catch {
            recording.mixFault = "\(error)"
            close(recording, now: now)
        }
    }

    private func takeMixes(now: Instant) {
        for (handle, item) in mixing where item.mix.isDone {
            mixing[handle] = nil
            finish(item.recording, item.mix, now: now)
        }
    }

    private func finish(_ recording: Recording, _ mix: MixThread, now: Instant) {
        switch mix.join() {
        case .success(let file): recording.mix = file
        case .failure(let fault):
            recording.mixFault = "\(fault)"
            log.line("recording \(recording.recorder.order.id), mix: \(fault)")
        }
        close(recording, now: now)
    }

    private func close(_ recording: Recording, now: Instant) {
        if let fault = recording.close(now: now) { log.line("recording \(recording.recorder.order.id): \(fault)") }
        tell(recording.report, at: now)
    }

    private func tell(_ report: RecordingReport, at time: Instant) {
        counters.endedRecordings += 1
        shared.results.post(.ended(report, at: time))
    }

    func stop(now: Instant) {
        for handle in running.keys { end(handle, .stopped, now: now) }
        for item in mixing.values { item.mix.cancel() }
        for item in mixing.values { finish(item.recording, item.mix, now: now) }
        mixing = [:]
        counters.running = 0
        shared.counters = counters
    }

    /// One recording with its folder.
    private final class Recording {
        var recorder: RoomRecorder
        let folder: RecordingFolder
        private let startedAtMs: Int64
        private let startedAt: Instant
        private var nextIndex: Instant
        private var durationMs: Int64 = 0
        var mix: RecordedFile?
        var mixFault: String?
        /// What went wrong after it had ended for another reason.
        var fault: RecordingEnd?
        var end: RecordingEnd { fault ?? recorder.end ?? .stopped }

        init(_ recorder: RoomRecorder, folder: RecordingFolder, startedAtMs: Int64, now: Instant) {
            self.recorder = recorder
            self.folder = folder
            self.startedAtMs = startedAtMs
            startedAt = now
            nextIndex = now + Recorder.indexInterval
        }

        var deadline: Instant { min(recorder.deadline, nextIndex) }

        /// - Returns: bytes that were written.
        func advance(to now: Instant) throws(RecordingFolder.Failure) -> UInt64 {
            recorder.advance(to: now)
            let byteCount = try write()
            if now >= nextIndex {
                nextIndex = now + Recorder.indexInterval
                try writeIndex(.recording, now: now)
            }
            return byteCount
        }

        private func write() throws(RecordingFolder.Failure) -> UInt64 {
            var byteCount: UInt64 = 0
            var failure: RecordingFolder.Failure?
            for write in recorder.takeWrites() {
                do throws(RecordingFolder.Failure) {
                    switch write {
                    case .open(let number, let name): try folder.begin(number, name: name)
                    case .append(let number, let bytes):
                        try folder.append(bytes, to: number)
                        byteCount += UInt64(bytes.count)
                    case .patch(let number, let offset, let bytes): try folder.patch(number, at: offset, bytes)
                    }
                } catch {
                    // The other files are finished all the same.
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return byteCount
        }

        /// Everything into the files. Returns what went wrong.
        func finish(_ end: RecordingEnd, now: Instant) -> RecordingFolder.Failure? {
            recorder.finish(end, now: now)
            durationMs = recorder.durationMs(at: now)
            do throws(RecordingFolder.Failure) {
                _ = try write()
                try writeIndex(.mixing, now: now)
                return nil
            } catch {
                return end == .diskFull ? nil : error
            }
        }

        func close(now: Instant) -> RecordingFolder.Failure? {
            folder.giveUpReserve()
            defer { folder.close() }
            do throws(RecordingFolder.Failure) {
                try writeIndex(.ended, now: now)
                return nil
            } catch {
                return error
            }
        }

        func writeIndex(_ state: RecordingIndex.State, now: Instant) throws(RecordingFolder.Failure) {
            let folder = folder
            let index = RecordingIndex(
                recorder: recorder, state: state, end: state == .recording ? nil : end, startedAtMs: startedAtMs,
                nowMs: startedAtMs + (now - startedAt).milliseconds, durationMs: recorder.durationMs(at: now),
                mix: mix, mixFault: mixFault, byteCount: { folder.byteCount(of: $0) })
            try folder.writeIndex(index.text)
        }

        var mixInputs: [AudioMixer.Input] {
            recorder.files.filter { $0.kind == .audio }.map {
                AudioMixer.Input(path: folder.path + "/" + $0.name, offset: $0.offset.nanoseconds * 48 / 1_000_000)
            }
        }

        var report: RecordingReport {
            let people = recorder.people
            var files = recorder.files.map { file in
                let person = people.first { $0.handle == file.participant }
                return RecordedFile(
                    name: file.name, kind: file.kind == .audio ? .audio : .video, participantID: person?.id ?? "",
                    uid: person?.uid ?? "", byteCount: folder.byteCount(of: file.name),
                    durationMs: file.facts.durationMs, offsetMs: file.offset.milliseconds)
            }
            if let mix { files.insert(mix, at: 0) }
            return RecordingReport(
                recording: recorder.order.recording, room: recorder.order.room, end: end,
                files: Array(files.prefix(RecordingReport.fileLimit)),
                byteCount: files.reduce(0) { $0 + $1.byteCount }, durationMs: durationMs,
                droppedPackets: recorder.droppedPackets)
        }
    }
}
