import RTPCore

/// One recording: takes what the engine copied of a room, gives what its files get, and says where in time each of them lies. Bounded in files,
/// bytes and time; opens and writes nothing. In virtual time; confined to the recorder's thread.
public struct RoomRecorder {
    /// Files of one recording.
    static let fileLimit = 256
    /// What is complete is given out so often: that much is lost where a worker dies.
    public static let flushInterval = Interval.seconds(1)

    public let order: RecordingOrder
    public let startedAt: Instant
    private let startedNTP: NTPTime
    private var tracks: [TrackRecorder] = []
    private var trackOf: [TrackName: Int] = [:]
    private var names: [ParticipantHandle: RecordedParticipant] = [:]
    private var participants: [ParticipantHandle] = []
    private var nextFlush: Instant
    private var fileCount = 0
    private var writes: [RecordingWrite] = []
    /// Why it has to end, by itself.
    public private(set) var end: RecordingEnd?
    /// When it was over.
    private var endedAt: Instant?
    /// What found no room on the way here.
    public var droppedPackets: UInt64 = 0
    /// Packets of m-lines that are too many.
    public private(set) var ignoredPackets: UInt64 = 0

    private struct TrackName: Hashable {
        var participant: ParticipantHandle
        var section: UInt8
    }

    /// - Parameter startedNTP: the node's wall clock at `now`, on the clock that sender reports are told by.
    public init(_ order: RecordingOrder, now: Instant, startedNTP: NTPTime) {
        self.order = order
        self.startedNTP = startedNTP
        startedAt = now
        nextFlush = now + Self.flushInterval
    }

    // MARK: In

    public mutating func name(_ participant: RecordedParticipant) { names[participant.handle] = participant }

    public mutating func receive(_ entry: RecordedEntry, payload: UnsafeRawBufferPointer) {
        guard end == nil, let track = track(of: entry) else { return }
        switch entry.kind {
        case .packet:
            tracks[track].receive(
                RecordedPacket(
                    index: entry.index, timestamp: entry.timestamp, marker: entry.marker, arrival: entry.arrival,
                    payload: Array(payload)), from: entry.ssrc)
            tracks[track].advance(to: entry.arrival)
        case .report:
            tracks[track].note(
                SenderClock(ntp: entry.ntp, rtpTimestamp: entry.timestamp, clockRate: entry.codec.clockRate),
                from: entry.ssrc, ours: entry.ourNTP)
        }
    }

    private mutating func track(of entry: RecordedEntry) -> Int? {
        let name = TrackName(participant: entry.participant, section: entry.section)
        if let known = trackOf[name] { return known }
        guard tracks.count < Self.fileLimit else {
            ignoredPackets += 1
            return nil
        }
        if !participants.contains(entry.participant) { participants.append(entry.participant) }
        tracks.append(
            TrackRecorder(
                participant: entry.participant, section: entry.section, codec: entry.codec,
                name: fileName(for: entry)))
        trackOf[name] = tracks.count - 1
        return tracks.count - 1
    }

    /// `02-alice-video.webm`: the participant's number, its user, what it is; a number more where there are several.
    private func fileName(for entry: RecordedEntry) -> String {
        let number = (participants.firstIndex(of: entry.participant) ?? 0) + 1
        let kind = entry.codec.kind == .audio ? "audio" : "video"
        let same = tracks.count { $0.participant == entry.participant && $0.kind == entry.codec.kind }
        let uid = names[entry.participant].map { "-" + $0.uid.prefix(64) } ?? ""
        return (number < 10 ? "0" : "") + "\(number)\(uid)-\(kind)\(same > 0 ? "-\(same + 1)" : "")."
            + entry.codec.fileExtension
    }

    // MARK: Time

    /// When `advance` is wanted next.
    public var deadline: Instant {
        end != nil
            ? .distantFuture
            : min(min(nextFlush, startedAt + order.duration), tracks.map(\.deadline).min() ?? nextFlush)
    }

    public mutating func advance(to now: Instant) {
        guard end == nil else { return }
        for k in tracks.indices { tracks[k].advance(to: now) }
        if now >= nextFlush {
            nextFlush = now + Self.flushInterval
            flush()
        }
        if byteCount >= order.byteLimit { end = .sizeLimit }
        if now - startedAt >= order.duration { end = .timeLimit }
    }

    /// It is over; `takeWrites` gives the rest.
    public mutating func finish(_ end: RecordingEnd, now: Instant) {
        guard endedAt == nil else { return }
        endedAt = now
        self.end = self.end ?? end
        for k in tracks.indices { tracks[k].advance(to: now, isOver: true) }
        flush(isOver: true)
    }

    private mutating func flush(isOver: Bool = false) {
        for k in tracks.indices {
            let writes = tracks[k].flush(number: fileCount, isOver: isOver)
            if case .open? = writes.first { fileCount += 1 }
            self.writes += writes
        }
    }

    // MARK: Out

    /// What the files get since the last call, in order.
    public mutating func takeWrites() -> [RecordingWrite] {
        defer { writes = [] }
        return writes
    }

    /// M-lines that cannot go on without a key frame, since the last call.
    public mutating func takeKeyFrameWishes() -> [(participant: ParticipantHandle, section: UInt8)] {
        var wishes: [(ParticipantHandle, UInt8)] = []
        for k in tracks.indices where tracks[k].takeKeyFrameWish() {
            wishes.append((tracks[k].participant, tracks[k].section))
        }
        return wishes
    }

    public var byteCount: Int64 { tracks.reduce(0) { $0 + $1.facts.byteCount } }

    public func durationMs(at now: Instant) -> Int64 { ((endedAt ?? now) - startedAt).milliseconds }

    /// Whoever is in it, in the order in which their media came.
    public var people: [RecordedParticipant] {
        participants.map { names[$0] ?? RecordedParticipant(handle: $0, id: "", uid: "", device: "") }
    }

    /// Every file that has begun, in the order of its numbers.
    public var files: [TrackFile] {
        tracks.filter { $0.file != nil }.sorted { ($0.file ?? 0) < ($1.file ?? 0) }.map { track in
            var file = TrackFile(
                name: track.name, kind: track.kind, codec: track.codec, participant: track.participant,
                facts: track.facts)
            let offset = track.clockOffset
            func ours(_ time: NTPTime) -> Interval {
                NTPTime(rawValue: time.rawValue &+ (offset ?? 0)).interval(since: startedNTP)
            }
            if let start = track.timeline.start, offset != nil {
                file.offset = ours(start)
                file.isByReports = true
                file.drift = track.timeline.latestStart.map { $0.interval(since: start) } ?? .zero
            } else if let arrival = track.timeline.startArrival {
                file.offset = arrival - startedAt
            }
            return file
        }
    }
}

/// A file of a recording, and where in time it lies.
public struct TrackFile: Hashable, Sendable {
    public var name: String
    public var kind: MediaKind
    public var codec: MediaCodec
    public var participant: ParticipantHandle
    public var facts: TrackFacts
    /// From the recording's beginning to the file's, by the node's wall clock.
    public var offset = Interval.zero
    /// The offset is by sender reports; else by when packets came.
    public var isByReports = false
    /// How far the sender's media clock has moved against its wall clock since the beginning.
    public var drift = Interval.zero
}
