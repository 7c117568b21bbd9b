import RTPCore

// Bytes of what workers tell: `WorkerNews`, `WorkerHello` and counters.

private enum NewsNumber: UInt8 {
    case prepared = 1, joined, ended, interrupted, recovered, pathChanged, media, statistics, removed, slots, speaker,
        played, recorded
}

extension TransportStatistics {
    /// Before version 9 the last two, of the relay itself, were not told.
    fileprivate static func longFields(
        inLink version: UInt8
    ) -> ArraySlice<(path: any WritableKeyPath<Self, UInt64> & Sendable, name: String)> {
        longFields.dropLast(version >= 9 ? 0 : 2)
    }
}

extension LinkWriter {
    mutating func append(_ news: WorkerNews) {
        switch news {
        case .prepared(let participant, let at): append(.prepared, participant, at)
        case .joined(let participant, let at): append(.joined, participant, at)
        case .ended(let participant, let end, let at, let statistics):
            append(.ended, participant, at)
            append(end.rawValue)
            append(statistics)
        case .interrupted(let participant, let at): append(.interrupted, participant, at)
        case .recovered(let participant, let at): append(.recovered, participant, at)
        case .pathChanged(let participant, let at): append(.pathChanged, participant, at)
        case .media(let participant, let kind, let at):
            append(.media, participant, at)
            append(kind.rawValue)
        case .statistics(let participant, let statistics, let at):
            append(.statistics, participant, at)
            append(statistics)
        case .slots(let participant, let occupants, let at):
            append(.slots, participant, at)
            append(occupants)
        case .speaker(let participant, let at): append(.speaker, participant, at)
        case .played(let participant, let prompt, let end, let at):
            append(.played, participant, at)
            append(prompt.value)
            append(end.rawValue)
        case .recorded(let report, let at):
            append(NewsNumber.recorded.rawValue)
            append(report)
            append(at.nanoseconds)
        case .removed(let participant, let statistics, let at):
            append(.removed, participant, at)
            append(statistics)
        }
    }

    private mutating func append(_ number: NewsNumber, _ participant: ParticipantHandle, _ at: Instant) {
        append(number.rawValue)
        append(participant.value)
        append(at.nanoseconds)
    }

    private mutating func append(_ occupants: [SlotOccupant]) {
        append(list: occupants) { writer, occupant in
            writer.append(occupant.section)
            writer.append(occupant.sender.value)
        }
    }

    private mutating func append(_ statistics: TransportStatistics) {
        for (path, _) in TransportStatistics.longFields(inLink: version) { append(statistics[keyPath: path]) }
        for (path, _) in TransportStatistics.shortFields { append(statistics[keyPath: path]) }
        append(statistics.remoteFractionLost)
    }

    mutating func append(_ hello: WorkerHello) {
        append(UInt32(hello.worker.index))
        append(hello.worker.epoch)
        append(hello.processID)
        append(list: hello.endpoint.candidates) { writer, candidate in
            writer.append(candidate.address)
            writer.append(candidate.port)
            writer.append(candidate.isStream)
        }
        append(hello.endpoint.fingerprint)
        if version >= 10 { append(hello.build) }
        append(list: hello.transports) { writer, transport in
            writer.append(transport.participant.value)
            writer.append(transport.room.value)
            writer.append(transport.phase.rawValue)
            writer.append(transport.isInterrupted)
            writer.append(transport.since.nanoseconds)
            writer.append(transport.gates.rawValue)
            writer.append(transport.slots)
            writer.append(transport.isSpeaker)
            writer.append(optional: transport.prompt?.value)
        }
        if version >= 9 { append(list: hello.recordings) { $0.append($1.value) } }
        append(list: hello.news) { $0.append($1) }
    }

    mutating func append(_ counters: [WorkerCounter]) {
        append(list: counters) { writer, counter in
            writer.append(counter.name)
            writer.append(counter.label)
            writer.append(counter.value)
        }
    }

    mutating func append(_ part: CapturePart) {
        append(part.id.value)
        append(optional: part.end?.rawValue)
        append(part.bytes)
    }
}

extension LinkReader {
    mutating func news() throws(LinkRefusal) -> WorkerNews {
        let number: NewsNumber = try choice("news")
        guard number != .recorded else {
            let report = try recordingReport()
            return .recorded(report, at: try instant())
        }
        let participant = try participant()
        let at = try instant()
        switch number {
        case .prepared: return .prepared(participant, at: at)
        case .joined: return .joined(participant, at: at)
        case .ended:
            let end: TransportEnd = try choice("end")
            return .ended(participant, end, at: at, try statistics())
        case .interrupted: return .interrupted(participant, at: at)
        case .recovered: return .recovered(participant, at: at)
        case .pathChanged: return .pathChanged(participant, at: at)
        case .media: return .media(participant, try choice("media kind"), at: at)
        case .statistics: return .statistics(participant, try statistics(), at: at)
        case .slots: return .slots(participant, try occupants(), at: at)
        case .speaker: return .speaker(participant, at: at)
        case .played:
            let prompt = try prompt()
            return .played(participant, prompt, try choice("prompt end"), at: at)
        case .recorded: preconditionFailure("a report was read before")
        case .removed: return .removed(participant, try statistics(), at: at)
        }
    }

    /// An instant from 0 up to the distant future: anything else would trap in later arithmetic.
    mutating func instant() throws(LinkRefusal) -> Instant {
        let nanoseconds: Int64 = try integer()
        guard nanoseconds >= 0, nanoseconds <= Instant.distantFuture.nanoseconds else {
            throw .badValue("instant")
        }
        return Instant(nanoseconds: nanoseconds)
    }

    private mutating func occupants() throws(LinkRefusal) -> [SlotOccupant] {
        try list(elementByteCount: 9, limit: Limits.sectionsPerTransport, "slots") { (reader) throws(LinkRefusal) in
            SlotOccupant(section: try reader.slot(), sender: try reader.participant())
        }
    }

    private mutating func statistics() throws(LinkRefusal) -> TransportStatistics {
        var statistics = TransportStatistics()
        for (path, _) in TransportStatistics.longFields(inLink: version) { statistics[keyPath: path] = try integer() }
        for (path, _) in TransportStatistics.shortFields { statistics[keyPath: path] = try integer() }
        statistics.remoteFractionLost = try integer()
        return statistics
    }

    mutating func hello() throws(LinkRefusal) -> WorkerHello {
        let index = Int(try integer() as UInt32)
        guard index < 1_024 else { throw .badValue("worker index") }
        let worker = WorkerID(index: index, epoch: try integer())
        let processID: Int32 = try integer()
        guard processID > 0 else { throw .badValue("process id") }
        let candidates = try list(elementByteCount: 5, limit: 64, "candidates") {
            (reader) throws(LinkRefusal) -> WorkerEndpoint.Candidate in
            let address = try reader.string("address")
            let port: UInt16 = try reader.integer()
            return WorkerEndpoint.Candidate(address: address, port: port, isStream: try reader.bool("stream"))
        }
        let fingerprint = try byteString()
        guard fingerprint.count == 32 else { throw .badValue("fingerprint") }
        let build = version >= 10 ? try string("build") : ""
        let transports = try list(elementByteCount: 32, limit: 1 << 20, "transports") {
            (reader) throws(LinkRefusal) in try reader.snapshot()
        }
        var recordings: [RecordingHandle] = []
        if version >= 9 {
            recordings = try list(elementByteCount: 8, limit: 1 << 16, "recordings") {
                (reader) throws(LinkRefusal) in try reader.recording()
            }
        }
        let news = try list(elementByteCount: 17, limit: 1 << 20, "news") {
            (reader) throws(LinkRefusal) in try reader.news()
        }
        return WorkerHello(
            worker: worker, processID: processID,
            endpoint: WorkerEndpoint(candidates: candidates, fingerprint: fingerprint),
            transports: transports,
            news: news, recordings: recordings, build: build)
    }

    private mutating func snapshot() throws(LinkRefusal) -> TransportSnapshot {
        TransportSnapshot(
            participant: try participant(), room: try room(), phase: try choice("phase"),
            isInterrupted: try bool("interrupted"), since: try instant(), gates: try gates(),
            slots: try occupants(), isSpeaker: try bool("speaker"), prompt: try bool("prompt") ? try prompt() : nil)
    }

    mutating func counters() throws(LinkRefusal) -> [WorkerCounter] {
        try list(elementByteCount: 12, limit: 4_096, "counters") { (reader) throws(LinkRefusal) in
            let name = try reader.string("counter name")
            let label = try reader.string("counter label")
            return WorkerCounter(name, label: label, try reader.integer())
        }
    }

    mutating func capturePart() throws(LinkRefusal) -> CapturePart {
        let id = CaptureID(try integer())
        let end: CaptureEnd? = try bool("capture end") ? try choice("capture end") : nil
        return CapturePart(id: id, bytes: try byteString(), end: end)
    }
}
