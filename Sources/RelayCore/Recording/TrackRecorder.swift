import RTPCore

/// What one file of a recording is to get next. Files are numbered from 0 in the order in which they begin.
public enum RecordingWrite: Hashable, Sendable {
    /// A new file of this name.
    case open(Int, name: String)
    case append(Int, [UInt8])
    /// Bytes over others that were written before.
    case patch(Int, offset: Int, [UInt8])
}

/// One m-line of one participant on its way into one file: order, time, container. Owns the sources that it had; knows no file but by
/// number. In virtual time.
struct TrackRecorder {
    /// Repairs may take so long; nobody waits for what is recorded.
    static let patience = Interval.seconds(1)
    /// SSRCs that are told apart; the engine allows a transport no more.
    private static let sourceLimit = 16
    /// A stream of simulcast that has not come for so long is not waited for.
    private static let streamAbsence = Interval.seconds(2)

    private struct Source {
        var buffer = ReorderBuffer(patience: TrackRecorder.patience)
        var assembler: FrameAssembler?
        var clock: SenderClock?
        var size = PictureSize(width: 0, height: 0)
        var lastArrival = Instant(nanoseconds: 0)
    }

    let participant: ParticipantHandle
    let section: UInt8
    let kind: MediaKind
    let codec: MediaCodec
    let name: String
    private(set) var timeline: MediaTimeline
    private var sources: [UInt32: Source] = [:]
    /// The one that the file shows.
    private var current: UInt32?
    private var audio: OpusRecording?
    private var video: VideoRecording?
    /// Our clock less the sender's, in NTP units, as the latest report has it.
    private(set) var clockOffset: UInt64?
    private(set) var facts = TrackFacts()
    private(set) var wantsKeyFrame = false
    /// The file's number; nil: it has not begun.
    private(set) var file: Int?
    private var output: [UInt8] = []

    init(participant: ParticipantHandle, section: UInt8, codec: MediaCodec, name: String) {
        self.participant = participant
        self.section = section
        self.codec = codec
        self.name = name
        kind = codec.kind
        timeline = MediaTimeline(clockRate: codec.clockRate)
    }

    // MARK: In

    mutating func receive(_ packet: RecordedPacket, from ssrc: UInt32) {
        guard hasSource(ssrc) else { return facts.packetsUnused += 1 }
        facts.packets += 1
        sources[ssrc]?.lastArrival = packet.arrival
        sources[ssrc]?.buffer.insert(packet)
    }

    mutating func note(_ clock: SenderClock, from ssrc: UInt32, ours: NTPTime) {
        guard hasSource(ssrc) else { return }
        sources[ssrc]?.clock = clock
        clockOffset = ours.rawValue &- clock.ntp.rawValue
        if current == ssrc { timeline.note(clock) }
    }

    /// Whether the source is known by now; false for one too many.
    private mutating func hasSource(_ ssrc: UInt32) -> Bool {
        guard sources[ssrc] == nil else { return true }
        guard sources.count < Self.sourceLimit else { return false }
        var source = Source()
        source.assembler = codec.videoFormat.map { FrameAssembler(format: $0) }
        sources[ssrc] = source
        return true
    }

    // MARK: Through

    /// What has come in order, or can be waited for no longer. `isOver`: nothing more will come.
    mutating func advance(to now: Instant, isOver: Bool = false) {
        for ssrc in sources.keys.sorted() {
            while true {
                let step = isOver ? sources[ssrc]?.buffer.drain() : sources[ssrc]?.buffer.step(now: now)
                guard let step else { break }
                take(step, from: ssrc)
            }
        }
    }

    var deadline: Instant { sources.values.map(\.buffer.deadline).min() ?? .distantFuture }

    private mutating func take(_ step: ReorderBuffer.Step, from ssrc: UInt32) {
        switch (step, kind) {
        case (.gap(let count), .audio): facts.packetsLost += count
        case (.gap(let count), .video):
            facts.packetsLost += count
            sources[ssrc]?.assembler?.noteGap()
            if ssrc == current || current == nil { wantsKeyFrame = true }
        case (.packet(let packet), .audio): takeSound(packet, from: ssrc)
        case (.packet(let packet), .video):
            let frames = sources[ssrc]?.assembler?.append(packet) ?? []
            for frame in frames { takePicture(frame, from: ssrc) }
            let isWaiting = sources[ssrc]?.assembler?.awaitsKeyFrame ?? false
            if isWaiting, packet.marker, ssrc == current || current == nil { wantsKeyFrame = true }
        }
    }

    private mutating func takeSound(_ packet: RecordedPacket, from ssrc: UInt32) {
        guard OpusTOC(packet.payload.span) != nil else { return facts.packetsUnused += 1 }
        change(to: ssrc)
        let position = timeline.ticks(of: packet.timestamp, arrival: packet.arrival)
        if audio == nil { audio = OpusRecording(serial: 1, first: packet.payload, comments: ["TITLE=\(name)"]) }
        audio?.append(packet.payload, at: position)
    }

    private mutating func takePicture(_ frame: VideoFrame, from ssrc: UInt32) {
        if let size = frame.size { sources[ssrc]?.size = size }
        if ssrc != current {
            // Another stream takes over at a key frame: where it is larger, or what was shown comes no more.
            guard frame.isKey, current.map({ isBetter(ssrc, than: $0, at: frame.arrival) }) ?? true else { return }
        }
        change(to: ssrc)
        let ticks = timeline.ticks(of: frame.timestamp, arrival: frame.arrival)
        if video == nil, let format = codec.videoFormat {
            video = VideoRecording(format: format, first: frame, name: name)
        }
        guard video != nil else { return facts.packetsUnused += 1 }
        video?.append(frame, at: (ticks + 45) / 90)
        wantsKeyFrame = false
    }

    private func isBetter(_ ssrc: UInt32, than other: UInt32, at now: Instant) -> Bool {
        guard let new = sources[ssrc], let old = sources[other] else { return true }
        return new.size.height > old.size.height || now - old.lastArrival > Self.streamAbsence
    }

    private mutating func change(to ssrc: UInt32) {
        guard current != ssrc else { return }
        let isFirst = current == nil
        current = ssrc
        let clock = sources[ssrc]?.clock
        if isFirst {
            if let clock { timeline.note(clock) }
        } else {
            facts.sourceChanges += 1
            timeline.change(to: clock)
        }
    }

    mutating func takeKeyFrameWish() -> Bool {
        defer { wantsKeyFrame = false }
        return wantsKeyFrame
    }

    // MARK: Out

    /// Complete pages and clusters of everything so far. `number`: of the file, where it begins now.
    mutating func flush(number: Int, isOver: Bool = false) -> [RecordingWrite] {
        audio?.flush()
        video?.flush()
        if isOver {
            audio?.finish()
            video?.finish()
        }
        let output = audio?.takeOutput() ?? video?.takeOutput() ?? []
        facts.note(audio, video, unused: sources.values.compactMap(\.assembler?.unusedFrames).reduce(0, +))
        facts.packetsLate = sources.values.map(\.buffer.lateCount).reduce(0, +)
        guard !output.isEmpty else { return [] }
        facts.byteCount += Int64(output.count)
        var writes: [RecordingWrite] = []
        let file = self.file ?? number
        if self.file == nil { writes.append(.open(file, name: name)) }
        self.file = file
        writes.append(.append(file, output))
        if isOver {
            writes += (video?.patches ?? []).map { .patch(file, offset: $0.offset, $0.bytes) }
        }
        return writes
    }
}

/// What is known of one file.
public struct TrackFacts: Hashable, Sendable {
    public var byteCount: Int64 = 0
    public var durationMs: Int64 = 0
    public var packets: UInt64 = 0
    public var packetsLost: UInt64 = 0
    public var packetsLate: UInt64 = 0
    public var packetsUnused: UInt64 = 0
    public var sourceChanges: UInt64 = 0
    /// Of sound: time that stands for what was not there.
    public var gapMs: Int64 = 0
    public var frames: UInt64 = 0
    public var keyFrames: UInt64 = 0
    /// Pictures that were begun, or that refer to one that is missing.
    public var framesUnused: UInt64 = 0
    public var size: PictureSize?

    fileprivate mutating func note(_ audio: OpusRecording?, _ video: VideoRecording?, unused: UInt64) {
        if let audio {
            durationMs = audio.sampleCount / 48
            gapMs = audio.gapSamples / 48
        }
        if let video {
            durationMs = video.duration
            (frames, keyFrames, size) = (video.frameCount, video.keyFrameCount, video.size)
        }
        framesUnused = unused
    }
}

extension MediaCodec {
    /// Nil for sound.
    var videoFormat: VideoFormat? {
        switch self {
        case .opus: nil
        case .vp8: .vp8
        case .vp9: .vp9
        case .h264: .h264
        case .av1: .av1
        }
    }

    var fileExtension: String { videoFormat?.fileExtension ?? "ogg" }
}
