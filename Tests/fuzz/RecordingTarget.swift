import RTPCore

@testable import RelayCore

extension FuzzTarget {
    /// Whatever the participants of a recorded room send: the files that come of it can be read again, are as long as they say, and keep time.
    static let recording = FuzzTarget(
        name: "recording", byteLimit: 4_096,
        seeds: {
            let payloads =
                vectors("opus", "cases").map { act(0, $0) } + vectors("vp8", "cases").map { act(1, $0) }
                + vectors("vp9", "cases").map { act(2, $0) } + vectors("h264", "cases").map { act(3, $0) }
                + vectors("av1", "cases").map { act(4, $0) }
            let groups = stride(from: 0, to: payloads.count, by: 12).map { start in
                payloads[start..<min(start + 12, payloads.count)].flatMap { $0 }
            }
            return payloads.map { Array($0) } + groups
        }
    ) { bytes in
        var input = FuzzInput(bytes)
        var now = Instant(nanoseconds: 1_000_000_000)
        let order = RecordingOrder(
            recording: RecordingHandle(1), room: RoomHandle(2), id: "rec_1", roomName: "r", folder: "r_rec_1",
            byteLimit: 1 << 20, duration: .seconds(600))
        var recorder = RoomRecorder(order, now: now, startedNTP: NTPTime(rawValue: 1 << 32))
        var files: [[UInt8]] = []
        var names: [String] = []
        while !input.isEmpty {
            let codec = MediaCodec.allCases[input.choice(MediaCodec.allCases.count)]
            let flags = input.byte()
            now = now + .milliseconds(Int64(input.byte()))
            var entry = RecordedEntry(
                recording: RecordingHandle(1), participant: ParticipantHandle(UInt64(flags & 1) + 1), arrival: now,
                index: UInt64(input.byte()), ntp: NTPTime(rawValue: 0), ourNTP: NTPTime(rawValue: 0),
                timestamp: flags & 2 != 0 ? input.integer() : UInt32(input.byte()) * 960, ssrc: UInt32(flags >> 2 & 1),
                byteCount: 0, section: UInt8(codec.rawValue), kind: .packet, codec: codec, marker: flags & 8 != 0)
            if flags & 0x70 == 0x70 {
                entry.kind = .report
                entry.ntp = NTPTime(rawValue: input.integer())
                entry.ourNTP = NTPTime(rawValue: input.integer())
            }
            let payload = entry.kind == .packet ? input.piece() : []
            entry.byteCount = UInt16(payload.count)
            payload.withUnsafeBytes { recorder.receive(entry, payload: $0) }
            recorder.advance(to: now)
            keep(recorder.takeWrites(), in: &files, &names)
            _ = recorder.takeKeyFrameWishes()
        }
        recorder.finish(.stopped, now: now)
        keep(recorder.takeWrites(), in: &files, &names)
        let told = recorder.files
        require(told.map(\.name) == names, "files \(names), told \(told.map(\.name))")
        for (file, bytes) in zip(told, files) {
            require(file.facts.byteCount == Int64(bytes.count), "\(file.name) is \(bytes.count) bytes long")
            guard file.kind == .audio else { continue }
            do throws(OggOpusRefusal) {
                let samples = try OggOpusFile.packets(bytes).reduce(Int64(0)) {
                    $0 + Int64(OpusTOC($1.span)?.timestampUnits ?? 0)
                }
                require(samples / 48 == file.facts.durationMs, "\(file.name) lasts \(samples) samples")
            } catch {
                fatalError("broken promise: \(file.name) can not be read: \(error.detail)")
            }
        }
    }

    private static func act(_ codec: UInt8, _ payload: [UInt8]) -> [UInt8] {
        guard payload.count < 255 else { return [] }
        return [codec, 8, 20, 1, 1, UInt8(payload.count)] + payload
    }

    private static func keep(_ writes: [RecordingWrite], in files: inout [[UInt8]], _ names: inout [String]) {
        for write in writes {
            switch write {
            case .open(let number, let name):
                require(number == files.count, "file \(number) after \(files.count)")
                files.append([])
                names.append(name)
            case .append(let number, let bytes): files[number] += bytes
            case .patch(let number, let offset, let bytes):
                require(offset >= 0 && offset + bytes.count <= files[number].count, "a patch beyond the file")
                files[number].replaceSubrange(offset..<offset + bytes.count, with: bytes)
            }
        }
    }
}
