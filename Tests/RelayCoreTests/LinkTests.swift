import RTPCore
import RelayCore
import Testing

/// Draws values of the link's types; one seed gives one sequence.
private struct LinkValues {
    var random: RandomSource

    init(seed: UInt64) { random = .seeded(seed) }

    mutating func bool() -> Bool { Bool.random(using: &random) }
    mutating func integer<Integer: FixedWidthInteger>(_ type: Integer.Type = Integer.self) -> Integer {
        Integer.random(in: Integer.min...Integer.max, using: &random)
    }
    mutating func count(_ limit: Int) -> Int { Int.random(in: 0...limit, using: &random) }
    mutating func handle() -> ParticipantHandle {
        ParticipantHandle(UInt64.random(in: 1...UInt64.max, using: &random))
    }
    mutating func instant() -> Instant {
        Instant(nanoseconds: Int64.random(in: 0...Instant.distantFuture.nanoseconds, using: &random))
    }
    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in integer() } }
    mutating func text(_ limit: Int) -> String {
        String((0..<count(limit)).map { _ in "aZ9+/é€ \u{1F600}\r\n".randomElement(using: &random) ?? "x" })
    }
    mutating func pick<Value: CaseIterable>(_ type: Value.Type) -> Value where Value.AllCases == [Value] {
        Value.allCases[count(Value.allCases.count - 1)]
    }
    mutating func credentials() -> ICECredentials { ICECredentials(ufrag: text(20), password: text(40)) }

    mutating func section() -> MediaSection {
        var section = MediaSection(
            index: Int(integer(UInt32.self)), mid: text(16), kind: pick(MediaKind.self),
            codec: pick(MediaCodec.self),
            payloadType: integer(UInt8.self) & 127)
        section.rtxPayloadType = bool() ? integer(UInt8.self) & 127 : nil
        section.redPayloadType = bool() ? integer(UInt8.self) & 127 : nil
        section.clientSends = bool()
        section.clientReceives = bool()
        for kind in HeaderExtensionKind.allCases { section.extensions[kind] = integer() }
        section.feedback = RTCPFeedback(rawValue: integer())
        section.signalledSSRCs = (0..<count(4)).map { _ in integer() }
        section.signalledRTXSSRCs = (0..<count(4)).map { _ in integer() }
        section.sendSSRC = integer()
        section.sendRTXSSRC = integer()
        section.streamIDs = (0..<count(3)).map { _ in text(16) }
        return section
    }

    mutating func fingerprint() -> CertificateFingerprint {
        switch count(2) {
        case 0: CertificateFingerprint(algorithm: .sha256, bytes: bytes(32))
        case 1: CertificateFingerprint(algorithm: .sha384, bytes: bytes(48))
        default: CertificateFingerprint(algorithm: .sha512, bytes: bytes(64))
        }
    }

    mutating func command() -> WorkerCommand {
        switch count(15) {
        case 0: .create(configuration())
        case 1: .join(handle())
        case 2: .remove(handle())
        case 3: .restartICE(handle(), local: credentials(), remote: credentials())
        case 4: .gates(handle(), gates())
        case 5: .adopted
        case 6: .slots(handle(), (0..<count(4)).map { _ in wish() })
        case 7: .sound(SoundID(handle().value), packets: (0..<count(4)).map { _ in bytes(count(20)) }, isLast: bool())
        case 8: .play(handle(), order())
        case 9: .stopPlaying(handle(), PromptHandle(handle().value))
        case 10:
            .capture(
                CaptureOrder(
                    id: CaptureID(integer()), room: RoomHandle(handle().value),
                    duration: .milliseconds(Int64(1 + count(299_999))), byteLimit: count(16 << 20)))
        case 11: .stopCapture(CaptureID(integer()))
        case 12: .record(recordingOrder())
        case 13: .nameRecorded(RecordingHandle(handle().value), recorded())
        case 14: .stopRecording(RecordingHandle(handle().value))
        default: .shutDown
        }
    }

    mutating func name() -> String { "a.B-_\(integer(UInt16.self))" }
    mutating func recordingOrder() -> RecordingOrder {
        RecordingOrder(
            recording: RecordingHandle(handle().value), room: RoomHandle(handle().value), id: name(), roomName: name(),
            folder: name(), audio: bool(), video: bool(), mix: bool(), byteLimit: Int64(count(1 << 40)),
            duration: .seconds(Int64(count(1 << 20))))
    }
    mutating func recorded() -> RecordedParticipant {
        RecordedParticipant(handle: handle(), id: name(), uid: name(), device: name())
    }
    mutating func report() -> RecordingReport {
        let files = (0..<count(4)).map { _ in
            RecordedFile(
                name: name(), kind: RecordedFile.Kind(rawValue: UInt8(count(2))) ?? .audio, participantID: text(9),
                uid: text(9), byteCount: Int64(count(1 << 40)), durationMs: Int64(count(1 << 40)),
                offsetMs: Int64(count(1 << 40)) - 1 << 39)
        }
        return RecordingReport(
            recording: RecordingHandle(handle().value), room: RoomHandle(handle().value), end: pick(RecordingEnd.self),
            files: files, byteCount: Int64(count(1 << 40)), durationMs: Int64(count(1 << 40)), droppedPackets: integer()
        )
    }

    mutating func order() -> PromptOrder {
        PromptOrder(
            prompt: PromptHandle(handle().value), sound: SoundID(handle().value), times: integer(),
            pause: .milliseconds(Int64(count(600_000))))
    }
    mutating func wish() -> SlotWish {
        SlotWish(section: UInt8(count(63)), pinned: bool() ? handle() : nil, wantedHeight: integer())
    }
    mutating func occupants() -> [SlotOccupant] {
        (0..<count(4)).map { _ in SlotOccupant(section: UInt8(count(63)), sender: handle()) }
    }
    mutating func gates() -> MediaGates { MediaGates(rawValue: integer(UInt8.self) & 127) }

    mutating func configuration() -> TransportConfiguration {
        var configuration =
            TransportConfiguration(
                participant: handle(), room: RoomHandle(handle().value), isPeerRoom: bool(),
                joinsWhenReady: bool(),
                localICE: credentials(), remoteICE: credentials(),
                fingerprints: (0...count(3)).map { _ in fingerprint() },
                sections: (0..<count(6)).map { _ in section() })
        configuration.gates = gates()
        configuration.keepsKeyFrame = bool()
        return configuration
    }

    mutating func statistics() -> TransportStatistics {
        var statistics = TransportStatistics()
        statistics.packetsReceived = integer()
        statistics.bytesReceived = integer()
        statistics.packetsLost = integer()
        statistics.jitterMicroseconds = integer()
        statistics.largestJitterMicroseconds = integer()
        statistics.largestAudioGapMs = integer()
        statistics.largestVideoGapMs = integer()
        statistics.packetsSent = integer()
        statistics.bytesSent = integer()
        statistics.remoteFractionLost = integer()
        statistics.remotePacketsLost = integer()
        statistics.remotePacketsExpected = integer()
        statistics.remoteJitterMicroseconds = integer()
        statistics.largestRemoteJitterMicroseconds = integer()
        statistics.roundTripMicroseconds = integer()
        statistics.smallestRoundTripMicroseconds = integer()
        statistics.largestRoundTripMicroseconds = integer()
        statistics.roundTripSumMicroseconds = integer()
        statistics.roundTripCount = integer()
        statistics.pathChanges = integer()
        statistics.packetsDiscarded = integer()
        statistics.workerOverflows = integer()
        return statistics
    }

    mutating func news() -> WorkerNews {
        switch count(12) {
        case 0: .prepared(handle(), at: instant())
        case 1: .joined(handle(), at: instant())
        case 2:
            .ended(handle(), TransportEnd(rawValue: UInt8(count(5))) ?? .closed, at: instant(), statistics())
        case 3: .interrupted(handle(), at: instant())
        case 4: .recovered(handle(), at: instant())
        case 5: .pathChanged(handle(), at: instant())
        case 6: .media(handle(), pick(MediaKind.self), at: instant())
        case 7: .removed(handle(), statistics(), at: instant())
        case 8: .slots(handle(), occupants(), at: instant())
        case 9: .speaker(handle(), at: instant())
        case 10:
            .played(handle(), PromptHandle(handle().value), bool() ? .finished : .failed, at: instant())
        case 11: .recorded(report(), at: instant())
        default: .statistics(handle(), statistics(), at: instant())
        }
    }

    mutating func hello() -> WorkerHello {
        WorkerHello(
            worker: WorkerID(index: count(1_023), epoch: integer()),
            processID: Int32.random(in: 1...Int32.max, using: &random),
            endpoint: WorkerEndpoint(
                candidates: (0..<count(3)).map { _ in .init(address: text(40), port: integer(), isStream: bool()) },
                fingerprint: bytes(32)),
            transports: (0..<count(4)).map { _ in
                TransportSnapshot(
                    participant: handle(), room: RoomHandle(handle().value),
                    phase: TransportPhase(rawValue: UInt8(count(2))) ?? .joined, isInterrupted: bool(),
                    since: instant(), gates: gates(), slots: occupants(), isSpeaker: bool(),
                    prompt: bool() ? PromptHandle(handle().value) : nil)
            }, news: (0..<count(5)).map { _ in news() },
            recordings: (0..<count(3)).map { _ in RecordingHandle(handle().value) }, build: text(40))
    }

    mutating func message() -> LinkMessage {
        switch count(5) {
        case 4:
            .captured(
                CapturePart(id: CaptureID(integer()), bytes: bytes(count(300)), end: bool() ? .roomEmpty : nil))
        case 0: .command(command())
        case 1: .hello(hello())
        case 2: .news(news())
        case 3:
            .load(
                WorkerLoad(
                    at: instant(), cpu: .microseconds(Int64(count(1 << 40))), packets: integer(),
                    backlog: .milliseconds(Int64(count(9_999))), residentBytes: integer(), handshakerSteps: integer()))
        default: .counters((0..<count(6)).map { _ in WorkerCounter(text(30), label: text(30), integer()) })
        }
    }
}

/// What decoding the frame `bytes` gives, without its length field.
private func decode(_ bytes: [UInt8]) throws(LinkRefusal) -> LinkMessage {
    try LinkMessage(decoding: bytes.dropFirst(4))
}

/// All messages that `framer` has, and the refusal that ended them.
private func drain(_ framer: inout LinkFramer) -> (messages: [LinkMessage], refusal: LinkRefusal?) {
    var messages: [LinkMessage] = []
    do throws(LinkRefusal) {
        while let message = try framer.next() { messages.append(message) }
        return (messages, nil)
    } catch {
        return (messages, error)
    }
}

private func append(_ bytes: [UInt8], to framer: inout LinkFramer) {
    bytes.withUnsafeBytes { framer.append($0) }
}

@Suite struct LinkTests {
    @Test("every message comes back as it was", arguments: [1, 2, 3, 4] as [UInt64])
    func roundTrip(seed: UInt64) throws {
        var values = LinkValues(seed: seed)
        for _ in 0..<300 {
            let message = values.message()
            #expect(try decode(message.encoded()) == message)
        }
    }

    @Test("every case of command, news and end occurs among the random messages")
    func coverage() {
        var values = LinkValues(seed: 9)
        var seen = Set<UInt16>()
        for _ in 0..<2_000 {
            let bytes = values.message().encoded()
            if bytes[5] == 1 || bytes[5] == 3 { seen.insert(UInt16(bytes[5]) << 8 | UInt16(bytes[6])) }
        }
        #expect(seen.count == 16 + 13)
    }

    @Test("no prefix of a message is a message", arguments: [11, 12, 13] as [UInt64])
    func prefixes(seed: UInt64) {
        var values = LinkValues(seed: seed)
        for _ in 0..<40 {
            let bytes = values.message().encoded()
            for count in 4..<bytes.count {
                #expect(throws: LinkRefusal.self) { try decode(Array(bytes.prefix(count))) }
            }
        }
    }

    @Test("a changed byte gives a message or a refusal, never a trap", arguments: [21, 22, 23] as [UInt64])
    func flips(seed: UInt64) {
        var values = LinkValues(seed: seed)
        var refusals = 0
        for _ in 0..<60 {
            let bytes = values.message().encoded()
            for index in 4..<bytes.count {
                var changed = bytes
                changed[index] ^= UInt8.random(in: 1...255, using: &values.random)
                if let message = try? decode(changed) {
                    // What was understood can be said again.
                    #expect((try? decode(message.encoded())) == message)
                } else {
                    refusals += 1
                }
            }
        }
        #expect(refusals > 0)
    }

    @Test("random bytes never trap", arguments: [31, 32] as [UInt64])
    func noise(seed: UInt64) {
        var values = LinkValues(seed: seed)
        var understood = 0
        for _ in 0..<20_000 {
            let bytes = [LinkFormat.version, UInt8(values.count(5))] + values.bytes(values.count(64))
            if (try? LinkMessage(decoding: bytes[...])) != nil { understood += 1 }
        }
        #expect(understood < 20_000)
    }

    @Test("bytes behind the last field are refused")
    func trailingBytes() {
        let bytes = LinkMessage.command(.adopted).encoded() + [0]
        #expect(throws: LinkRefusal.trailingBytes(1)) { try decode(bytes) }
    }

    @Test("another version is refused by its number")
    func otherVersion() {
        var bytes = LinkMessage.command(.adopted).encoded()
        bytes[4] = LinkFormat.version + 1
        #expect(throws: LinkRefusal.unknownVersion(LinkFormat.version + 1)) { try decode(bytes) }
    }

    @Test("an unknown kind is refused by its number")
    func unknownKind() {
        var bytes = LinkMessage.command(.adopted).encoded()
        bytes[5] = 77
        #expect(throws: LinkRefusal.unknownKind(77)) { try decode(bytes) }
    }

    @Test("handle 0 is refused")
    func handleZero() {
        let bytes = LinkMessage.command(.join(ParticipantHandle(1))).encoded().dropLast() + [0]
        #expect(throws: LinkRefusal.badValue("participant")) { try decode(Array(bytes)) }
    }

    @Test("an instant before boot is refused")
    func negativeInstant() {
        var bytes = LinkMessage.news(.joined(ParticipantHandle(1), at: Instant(nanoseconds: 5))).encoded()
        bytes[bytes.count - 8] = 0x80
        #expect(throws: LinkRefusal.badValue("instant")) { try decode(bytes) }
    }

    @Test("a list that names more elements than bytes follow is refused before anything is reserved")
    func listBomb() {
        var bytes = LinkMessage.counters([]).encoded()
        bytes.replaceSubrange(6..<10, with: [0, 0, 0x0F, 0xFF])
        #expect(throws: LinkRefusal.truncated) { try decode(bytes) }
    }

    @Test(
        "messages cut into pieces of any size come out whole and in order", arguments: [1, 2, 7, 100, 5_000])
    func framing(pieceByteCount: Int) {
        var values = LinkValues(seed: 41)
        let messages = (0..<50).map { _ in values.message() }
        var bytes = messages.flatMap { $0.encoded() }[...]
        var framer = LinkFramer()
        var received: [LinkMessage] = []
        while !bytes.isEmpty {
            append(Array(bytes.prefix(pieceByteCount)), to: &framer)
            bytes = bytes.dropFirst(pieceByteCount)
            let (part, refusal) = drain(&framer)
            #expect(refusal == nil)
            received += part
        }
        #expect(received == messages)
        #expect(framer.bufferedByteCount == 0)
    }

    @Test("a frame that is too long for its kind is refused by its head alone")
    func longFrame() {
        var framer = LinkFramer()
        append([0, 1, 0, 1, LinkFormat.version, 1], to: &framer)
        #expect(drain(&framer).refusal == .tooLong(65_537))
    }

    @Test("a hello may be longer than other messages, up to its own bound")
    func longHello() {
        var framer = LinkFramer()
        append([0x00, 0x80, 0, 0, LinkFormat.version, 2], to: &framer)
        #expect(drain(&framer).refusal == nil)
        var other = LinkFramer()
        append([0x01, 0x00, 0, 1, LinkFormat.version, 2], to: &other)
        #expect(drain(&other).refusal == .tooLong(16_777_217))
    }

    @Test("a frame shorter than its head is refused")
    func shortFrame() {
        var framer = LinkFramer()
        append([0, 0, 0, 1, LinkFormat.version, 1], to: &framer)
        #expect(drain(&framer).refusal == .truncated)
    }

    @Test("a hello with 10,000 kept news and 5,000 transports fits")
    func largestHello() throws {
        var values = LinkValues(seed: 51)
        var hello = values.hello()
        hello.news = (0..<10_000).map { _ in
            .ended(values.handle(), .closed, at: values.instant(), values.statistics())
        }
        hello.transports = (0..<5_000).map { _ in
            TransportSnapshot(
                participant: values.handle(), room: RoomHandle(1), phase: .joined, isInterrupted: false,
                since: values.instant())
        }
        var framer = LinkFramer()
        append(LinkMessage.hello(hello).encoded(), to: &framer)
        #expect(drain(&framer).messages == [.hello(hello)])
    }

    @Test("a transport of the largest kind fits into a command")
    func largestCommand() throws {
        var values = LinkValues(seed: 61)
        let section = values.section()
        let command = WorkerCommand.create(
            TransportConfiguration(
                participant: values.handle(), room: RoomHandle(2), isPeerRoom: false, joinsWhenReady: true,
                localICE: values.credentials(), remoteICE: values.credentials(),
                fingerprints: [values.fingerprint()],
                sections: (0..<Limits.sectionsPerTransport).map { _ in section }))
        let bytes = LinkMessage.command(command).encoded()
        #expect(bytes.count < LinkFormat.messageByteCount)
        #expect(try decode(bytes) == .command(command))
    }
}
