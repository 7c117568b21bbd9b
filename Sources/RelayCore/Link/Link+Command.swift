import RTPCore

// Bytes of `WorkerCommand`: a number, then the fields in the order of the type.

private enum CommandNumber: UInt8 {
    case create = 1, join, remove, restartICE, adopted, shutDown, gates, slots, sound, play, stopPlaying, capture,
        stopCapture, record, nameRecorded, stopRecording
}

extension LinkWriter {
    mutating func append(_ command: WorkerCommand) {
        switch command {
        case .create(let configuration):
            append(CommandNumber.create.rawValue)
            append(configuration)
        case .join(let participant):
            append(CommandNumber.join.rawValue)
            append(participant.value)
        case .remove(let participant):
            append(CommandNumber.remove.rawValue)
            append(participant.value)
        case .restartICE(let participant, let local, let remote):
            append(CommandNumber.restartICE.rawValue)
            append(participant.value)
            append(local)
            append(remote)
        case .gates(let participant, let gates):
            append(CommandNumber.gates.rawValue)
            append(participant.value)
            append(gates.rawValue)
        case .slots(let participant, let wishes):
            append(CommandNumber.slots.rawValue)
            append(participant.value)
            append(list: wishes) { writer, wish in
                writer.append(wish.section)
                writer.append(optional: wish.pinned?.value)
                writer.append(wish.wantedHeight)
            }
        case .sound(let id, let packets, let isLast):
            append(CommandNumber.sound.rawValue)
            append(id.value)
            append(list: packets) { writer, packet in writer.append(packet) }
            append(isLast)
        case .play(let participant, let order):
            append(CommandNumber.play.rawValue)
            append(participant.value)
            append(order.prompt.value)
            append(order.sound.value)
            append(order.times)
            append(order.pause.nanoseconds)
        case .stopPlaying(let participant, let prompt):
            append(CommandNumber.stopPlaying.rawValue)
            append(participant.value)
            append(prompt.value)
        case .capture(let order):
            append(CommandNumber.capture.rawValue)
            append(order.id.value)
            append(order.room.value)
            append(order.duration.nanoseconds)
            append(UInt32(order.byteLimit))
        case .stopCapture(let id):
            append(CommandNumber.stopCapture.rawValue)
            append(id.value)
        case .record(let order):
            append(CommandNumber.record.rawValue)
            append(order)
        case .nameRecorded(let recording, let participant):
            append(CommandNumber.nameRecorded.rawValue)
            append(recording.value)
            append(participant)
        case .stopRecording(let recording):
            append(CommandNumber.stopRecording.rawValue)
            append(recording.value)
        case .adopted: append(CommandNumber.adopted.rawValue)
        case .shutDown: append(CommandNumber.shutDown.rawValue)
        }
    }

    private mutating func append(_ credentials: ICECredentials) {
        append(credentials.ufrag)
        append(credentials.password)
    }

    private mutating func append(_ configuration: TransportConfiguration) {
        append(configuration.participant.value)
        append(configuration.room.value)
        append(configuration.isPeerRoom)
        append(configuration.joinsWhenReady)
        append(configuration.localICE)
        append(configuration.remoteICE)
        append(list: configuration.fingerprints) { writer, fingerprint in
            writer.append(fingerprint.algorithm.rawValue)
            writer.append(fingerprint.bytes)
        }
        append(list: configuration.sections) { writer, section in writer.append(section) }
        append(configuration.gates.rawValue)
        append(configuration.keepsKeyFrame)
    }

    private mutating func append(_ section: MediaSection) {
        append(UInt32(section.index))
        append(section.mid)
        append(section.kind.rawValue)
        append(section.codec.rawValue)
        append(section.payloadType)
        append(optional: section.rtxPayloadType)
        append(optional: section.redPayloadType)
        append(section.clientSends)
        append(section.clientReceives)
        for kind in HeaderExtensionKind.allCases { append(section.extensions[kind]) }
        append(section.feedback.rawValue)
        append(list: section.signalledSSRCs) { $0.append($1) }
        append(list: section.signalledRTXSSRCs) { $0.append($1) }
        append(section.sendSSRC)
        append(section.sendRTXSSRC)
        append(list: section.streamIDs) { $0.append($1) }
    }
}

extension LinkReader {
    mutating func command() throws(LinkRefusal) -> WorkerCommand {
        let number: CommandNumber = try choice("command")
        switch number {
        case .create: return .create(try configuration())
        case .join: return .join(try participant())
        case .remove: return .remove(try participant())
        case .restartICE:
            let participant = try participant()
            let local = try credentials()
            return .restartICE(participant, local: local, remote: try credentials())
        case .gates:
            let participant = try participant()
            return .gates(participant, try gates())
        case .slots:
            let participant = try participant()
            return .slots(participant, try wishes())
        case .sound:
            let id = try sound()
            let packets = try list(elementByteCount: 2, limit: Sound.packetCount, "packets") {
                (reader) throws(LinkRefusal) in try reader.byteString()
            }
            return .sound(id, packets: packets, isLast: try bool("last part"))
        case .play:
            let participant = try participant()
            return .play(participant, try order())
        case .stopPlaying:
            let participant = try participant()
            return .stopPlaying(participant, try prompt())
        case .capture:
            let id = CaptureID(try integer())
            let room = try room()
            let nanoseconds: Int64 = try integer()
            let longest = Interval.seconds(CaptureSpecification.secondsAllowed.upperBound).nanoseconds
            guard (1...longest).contains(nanoseconds) else { throw .badValue("capture duration") }
            let limit: UInt32 = try integer()
            guard limit <= CaptureSpecification.kibibytesAllowed.upperBound << 10 else {
                throw .badValue("capture size")
            }
            return .capture(
                CaptureOrder(id: id, room: room, duration: .nanoseconds(nanoseconds), byteLimit: Int(limit)))
        case .stopCapture: return .stopCapture(CaptureID(try integer()))
        case .record: return .record(try recordingOrder())
        case .nameRecorded:
            let recording = try recording()
            return .nameRecorded(recording, try recordedParticipant())
        case .stopRecording: return .stopRecording(try recording())
        case .adopted: return .adopted
        case .shutDown: return .shutDown
        }
    }

    mutating func participant() throws(LinkRefusal) -> ParticipantHandle {
        let value: UInt64 = try integer()
        guard value != 0 else { throw .badValue("participant") }
        return ParticipantHandle(value)
    }

    mutating func room() throws(LinkRefusal) -> RoomHandle {
        let value: UInt64 = try integer()
        guard value != 0 else { throw .badValue("room") }
        return RoomHandle(value)
    }

    mutating func prompt() throws(LinkRefusal) -> PromptHandle {
        let value: UInt64 = try integer()
        guard value != 0 else { throw .badValue("prompt") }
        return PromptHandle(value)
    }

    private mutating func sound() throws(LinkRefusal) -> SoundID {
        let value: UInt64 = try integer()
        guard value != 0 else { throw .badValue("sound") }
        return SoundID(value)
    }

    private mutating func order() throws(LinkRefusal) -> PromptOrder {
        let prompt = try prompt()
        let sound = try sound()
        let times: UInt32 = try integer()
        let pause = Interval.nanoseconds(try integer())
        guard pause >= .zero, pause <= Limits.longestPause else { throw .badValue("pause") }
        return PromptOrder(prompt: prompt, sound: sound, times: times, pause: pause)
    }

    private mutating func credentials() throws(LinkRefusal) -> ICECredentials {
        let ufrag = try string("ufrag")
        return ICECredentials(ufrag: ufrag, password: try string("password"))
    }

    mutating func gates() throws(LinkRefusal) -> MediaGates {
        let gates = MediaGates(rawValue: try integer())
        guard gates.isSubset(of: .all) else { throw .badValue("gates") }
        return gates
    }

    private mutating func wishes() throws(LinkRefusal) -> [SlotWish] {
        try list(elementByteCount: 4, limit: Limits.sectionsPerTransport, "wishes") { (reader) throws(LinkRefusal) in
            let section = try reader.slot()
            let pinned = try reader.bool("pinned") ? try reader.participant() : nil
            return SlotWish(section: section, pinned: pinned, wantedHeight: try reader.integer())
        }
    }

    /// Index of a section.
    mutating func slot() throws(LinkRefusal) -> UInt8 {
        let section: UInt8 = try integer()
        guard section < Limits.sectionsPerTransport else { throw .badValue("slot") }
        return section
    }

    private mutating func configuration() throws(LinkRefusal) -> TransportConfiguration {
        var configuration = TransportConfiguration(
            participant: try participant(), room: try room(), isPeerRoom: try bool("peer room"),
            joinsWhenReady: try bool("joins when ready"), localICE: try credentials(),
            remoteICE: try credentials(), fingerprints: try fingerprints(),
            sections: try list(elementByteCount: 40, limit: Limits.sectionsPerTransport, "sections") {
                (reader) throws(LinkRefusal) in try reader.section()
            })
        configuration.gates = try gates()
        configuration.keepsKeyFrame = try bool("keeps key frame")
        return configuration
    }

    private mutating func fingerprints() throws(LinkRefusal) -> [CertificateFingerprint] {
        try list(elementByteCount: 35, limit: 64, "fingerprints") { (reader) throws(LinkRefusal) in
            let algorithm: FingerprintAlgorithm = try reader.choice("fingerprint algorithm")
            let bytes = try reader.byteString()
            let byteCount =
                switch algorithm {
                case .sha256: 32
                case .sha384: 48
                case .sha512: 64
                }
            guard bytes.count == byteCount else { throw .badValue("fingerprint") }
            return CertificateFingerprint(algorithm: algorithm, bytes: bytes)
        }
    }

    private mutating func section() throws(LinkRefusal) -> MediaSection {
        let index = Int(try integer() as UInt32)
        let mid = try string("mid")
        let kind: MediaKind = try choice("media kind")
        let codec: MediaCodec = try choice("codec")
        var section = MediaSection(
            index: index, mid: mid, kind: kind, codec: codec, payloadType: try payloadType(integer()))
        if let rtx: UInt8 = try optional("RTX payload type") { section.rtxPayloadType = try payloadType(rtx) }
        if let red: UInt8 = try optional("RED payload type") { section.redPayloadType = try payloadType(red) }
        section.clientSends = try bool("client sends")
        section.clientReceives = try bool("client receives")
        for kind in HeaderExtensionKind.allCases { section.extensions[kind] = try integer() }
        section.feedback = RTCPFeedback(rawValue: try integer())
        section.signalledSSRCs = try ssrcs()
        section.signalledRTXSSRCs = try ssrcs()
        section.sendSSRC = try integer()
        section.sendRTXSSRC = try integer()
        section.streamIDs = try list(elementByteCount: 2, limit: Limits.layersPerTrack, "stream ids") {
            (reader) throws(LinkRefusal) in try reader.string("stream id")
        }
        return section
    }

    private func payloadType(_ value: UInt8) throws(LinkRefusal) -> UInt8 {
        guard value <= 127 else { throw .badValue("payload type") }
        return value
    }

    private mutating func ssrcs() throws(LinkRefusal) -> [UInt32] {
        try list(elementByteCount: 4, limit: 16_384, "SSRCs") { (reader) throws(LinkRefusal) in
            try reader.integer()
        }
    }
}
