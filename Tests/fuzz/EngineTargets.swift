import RTPCore
import RelayCore
import RelayTesting

private nonisolated(unsafe) let standing = EngineScene(.pair, unprepared: true)
private let strangers = [
    PeerAddress(ipv4: 0x0A02_0042, port: 6_666), PeerAddress(high: 0x2001_0DB8 << 32, low: 9, port: 443),
    PeerAddress(high: 0, low: 0xFFFF_0000_0000 | 0x0A02_0042, port: 6_666, connection: 3),
]

extension FuzzTarget {
    /// A datagram that nobody has signed changes nothing in a running engine: no answer, no news, no transport more or less;
    /// it is counted once. The first byte says from where it comes: strangers, or in the name of people who are in.
    static let datagram = FuzzTarget(
        name: "datagram", byteLimit: 1_600,
        seeds: {
            let media = vectors("rtp_packets", "cases", "drop") + vectors("rtcp_packets", "cases")
            let records = vectors("dtls", "cases") + keptInputs("dtls")
            let others = vectors("srtp_packets", "cases", "drop", field: "protected") + vectors("demux", "examples")
            return inputs(vectors("stun", "cases") + media + records + others, behind: 0, 3, 5)
        }
    ) { bytes in
        let datagram = Array(bytes.dropFirst())
        guard !datagram.isEmpty else { return }
        let sources = strangers + standing.people.map(\.address)
        let source = sources[Int(bytes[0]) % sources.count]
        standing.tick()
        let engine = standing.engine
        let before = (engine.transportCount, engine.counters.dropped, engine.counters.checksAnswered)
        standing.receive(datagram, from: source)
        require(engine.transportCount == before.0, "a transport more or less")
        require(engine.counters.checksAnswered == before.2, "a check that nobody signed was answered")
        let isRecord =
            DatagramKind.classify(
                firstByte: datagram[0], secondByte: datagram.count > 1 ? datagram[1] : 0,
                count: datagram.count) == .dtls && !strangers.contains(source)
        let dropped = engine.counters.dropped - before.1
        require(dropped == 1 || (isRecord && dropped == 0), "it was counted \(dropped) times")
    }

    /// People who are in send what they like, sealed with their keys, while time passes and control decides: nothing they
    /// say brings the engine down, reaches a stranger or somebody who has not joined. The first byte is the kind of room.
    static let media = FuzzTarget(
        name: "media", byteLimit: 4_096,
        seeds: {
            // Who, m-line, SSRC, step, type, time, elements, then the payload behind its length.
            let opus: [UInt8] = [0, 0, 0, 1, 0, 2, 7, 30, 0, 1, 10, 0xF8, 7, 7, 7, 7, 7, 7, 7, 7, 7]
            let vp8: [UInt8] = [
                0, 1, 0, 1, 0, 8, 0x85, 0, 2, 18, 0x90, 0x80, 0x81, 2, 0x10, 2, 0, 0x9D, 1, 0x2A, 64, 1, 240, 0, 5, 5,
                5,
                5,
            ]
            let step: [UInt8] = opus + vp8 + [3, 20, 0]
            let stream = [[UInt8]](repeating: step, count: 6).flatMap { $0 }
            var acts: [[UInt8]] = [[], [3, 255, 3, 255], [5, 1, 0, 8, 0], [2, 1, 0, 1, 1, 5, 2, 1, 1]]
            for report in vectors("rtcp_packets", "cases") + vectors("rtcp_twcc", "cases") where report.count < 200 {
                acts.append([1, UInt8(report.count)] + report)
            }
            return inputs(acts.map { (act: [UInt8]) -> [UInt8] in stream + act }, behind: 0, 1, 2)
        }
    ) { bytes in
        var play = MediaPlay(FuzzInput(bytes))
        play.run()
    }
}

/// What people in a room do, by an input's bytes.
private struct MediaPlay {
    private var input: FuzzInput
    private let scene: EngineScene
    /// The next packet's number and time of each SSRC.
    private var streams: [UInt32: (index: UInt64, timestamp: UInt32)] = [:]
    private var last: (datagram: [UInt8], address: PeerAddress)?

    init(_ input: FuzzInput) {
        self.input = input
        scene = EngineScene(EngineScene.Kind.allCases[self.input.choice(EngineScene.Kind.allCases.count)])
    }

    mutating func run() {
        var acts = 0
        while !input.isEmpty, acts < 300 {
            acts += 1
            let who = input.choice(scene.people.count * 8)
            let person = who / 8
            switch who % 8 {
            case 0: sendMedia(person)
            case 1: sendControl(person, input.piece())
            case 2: sendFeedback(person)
            case 3: scene.pass(.milliseconds(Int64(input.byte()) * (input.flag() ? 40 : 1)))
            case 4: scene.receive(input.piece(), from: scene.people[person].address)
            case 5: command(person)
            case 6: move(person)
            default: if let last { scene.receive(last.datagram, from: last.address) }
            }
        }
        scene.pass(.seconds(3))
        scene.apply(.shutDown)
        require(scene.engine.transportCount == 0, "a transport outlives its engine's end")
    }

    // MARK: Media

    private mutating func sendMedia(_ person: Int) {
        let section = input.pick(scene.people[person].session.sections)
        let ssrc: UInt32
        switch input.choice(6) {
        case 0, 1: ssrc = section.signalledSSRCs.first ?? UInt32(section.index + 100)
        case 2: ssrc = section.signalledRTXSSRCs.first ?? 90
        case 3: ssrc = UInt32(input.byte())
        case 4: ssrc = UInt32(section.index * 10 + input.choice(3))
        default: ssrc = input.integer()
        }
        var stream = streams[ssrc] ?? (index: 1_000, timestamp: 5_000)
        let step = Int64(Int8(bitPattern: input.byte()))
        // Far jumps, too: over the half of the numbers and over the rollover.
        stream.index = UInt64(max(0, Int64(stream.index) + (abs(step) > 120 ? step * 300 : step)))
        let type = input.byte()
        let types = [section.payloadType, section.rtxPayloadType ?? 0, section.redPayloadType ?? section.payloadType]
        let payloadType = type & 0x40 != 0 ? type & 0x7F : types[Int(type) % 3]
        stream.timestamp &+= UInt32(bitPattern: Int32(Int8(bitPattern: input.byte()))) &* 480
        let marks = input.byte()
        let elements = headerElements(section, marks)
        var header: [UInt8] = [
            0x80 | (elements.isEmpty ? 0 : 0x10) | (marks & 0x40 != 0 ? 0x20 : 0), payloadType | (marks & 0x80),
        ]
        header += bigEndian(UInt16(truncatingIfNeeded: stream.index))
        header += bigEndian(stream.timestamp)
        header += bigEndian(ssrc)
        if !elements.isEmpty {
            let padded = elements + [UInt8](repeating: 0, count: -elements.count & 3)
            header += [0xBE, 0xDE]
            header += bigEndian(UInt16(padded.count / 4))
            header += padded
        }
        let payload = input.piece()
        send(
            scene.people[person].cipher.sealed(
                header: header, payload: payload, ssrc: ssrc, index: stream.index), from: person)
        stream.index += 1
        streams[ssrc] = stream
    }

    /// Elements of the one-byte form, as far as the section has them, or any bytes.
    private mutating func headerElements(_ section: MediaSection, _ marks: UInt8) -> [UInt8] {
        if marks & 0x3F == 0x3F { return input.piece() }
        var elements: [UInt8] = []
        func add(_ kind: HeaderExtensionKind, _ body: [UInt8]) {
            let id = section.extensions[kind]
            guard (1...14).contains(id), (1...16).contains(body.count) else { return }
            elements += [id << 4 | UInt8(body.count - 1)] + body
        }
        if marks & 1 != 0 { add(.mid, Array(section.mid.utf8)) }
        if marks & 2 != 0 { add(.audioLevel, [input.byte()]) }
        if marks & 4 != 0 { add(.transportCC, [input.byte(), input.byte()]) }
        if marks & 8 != 0, !section.streamIDs.isEmpty { add(.rid, Array(input.pick(section.streamIDs).utf8)) }
        if marks & 16 != 0 { add(.dependencyDescriptor, input.piece()) }
        if marks & 32 != 0, !section.streamIDs.isEmpty { add(.repairedRID, Array(input.pick(section.streamIDs).utf8)) }
        return elements
    }

    private mutating func send(_ datagram: [UInt8], from person: Int) {
        last = (datagram, scene.people[person].address)
        scene.receive(datagram, from: scene.people[person].address)
    }

    // MARK: RTCP

    private mutating func sendControl(_ person: Int, _ contents: [UInt8]) {
        var compound = contents + [UInt8](repeating: 0, count: max(0, 8 - contents.count))
        guard compound.count <= 1_400 else { return }
        // Version 2 and a type of RTCP's, or it would be taken for something else.
        compound[0] = 0x80 | compound[0] & 0x3F
        compound[1] = 192 | compound[1] & 0x1F
        scene.people[person].controlIndex += 1
        let index = scene.people[person].controlIndex
        send(scene.people[person].cipher.sealedRTCP(compound, index: index), from: person)
    }

    /// Feedback about what the person gets, and reports about what it sends.
    private mutating func sendFeedback(_ person: Int) {
        let section = input.pick(scene.people[person].session.sections)
        let slot = input.flag() ? section.sendSSRC : section.sendRTXSSRC
        let own = section.signalledSSRCs.first ?? 1
        let number = input.integer(UInt16.self)
        let lost = (0...input.choice(8)).map { number &+ UInt16($0) &* UInt16(input.byte()) }
        let kind = input.choice(8)
        let words = (0..<6).map { _ in input.integer(UInt32.self) }
        let block = ReportBlock(
            ssrc: slot, fractionLost: UInt8(words[0] & 255), cumulativeLost: Int32(bitPattern: words[1]) >> 8,
            extendedHighest: words[2], jitter: words[3], lastSenderReport: words[4],
            delaySinceLastSenderReport: words[5])
        let blocks = [block]
        let time = NTPTime(rawValue: UInt64(words[0]) << 32 | UInt64(words[1]))
        let compound = written(1_000) { out in
            switch kind {
            case 0: _ = RTCPWriter.appendNACK(to: &out, senderSSRC: 1, mediaSSRC: slot, lost: lost.span)
            case 1: _ = RTCPWriter.appendPLI(to: &out, senderSSRC: 1, mediaSSRC: slot)
            case 2:
                _ = RTCPWriter.appendFIR(to: &out, senderSSRC: 1, mediaSSRC: slot, commandNumber: UInt8(number & 255))
            case 3: _ = RTCPWriter.appendReceiverReport(to: &out, ssrc: 1, blocks: blocks.span)
            case 4:
                let report = SenderReport(
                    ssrc: own, ntp: time, rtpTimestamp: words[2], packetCount: words[3], octetCount: words[4])
                _ = RTCPWriter.appendSenderReport(to: &out, report, blocks: blocks.span)
            case 5: _ = RTCPWriter.appendReceiverReferenceTime(to: &out, senderSSRC: own, time: time)
            case 6:
                _ = RTCPWriter.appendREMB(
                    to: &out, senderSSRC: 1, bitRate: UInt64(words[0]) << UInt64(words[1] & 31), ssrcs: [slot].span)
            default: break
            }
        }
        guard kind < 7 else { return sendControl(person, transportFeedback(words)) }
        sendControl(person, compound)
    }

    /// transport-cc about a run of packets, with any reference time.
    private mutating func transportFeedback(_ words: [UInt32]) -> [UInt8] {
        let count = UInt8(1 + input.choice(30))
        let deltas = (0..<count).map { _ in input.byte() }
        var body: [UInt8] = [0, 0, 0, 1, 0, 0, 0, 2]
        body += bigEndian(UInt16(truncatingIfNeeded: words[0] & 0x3FF))
        body += [0, count]
        body += bigEndian(words[1])
        body += [0x20, count]
        body += deltas
        body += [UInt8](repeating: 0, count: -body.count & 3)
        return [0x8F, RTCPPacketType.transportFeedback, 0, UInt8(body.count / 4)] + body
    }

    // MARK: Control and paths

    private mutating func command(_ person: Int) {
        let handle = scene.people[person].handle
        let sections = scene.people[person].session.sections
        switch input.choice(8) {
        case 0, 1: scene.apply(.gates(handle, MediaGates(rawValue: input.byte() & 0x7F)))
        case 2, 3:
            let wishes = (0..<input.choice(4)).map { _ in
                SlotWish(
                    section: UInt8(input.choice(sections.count)),
                    pinned: input.flag() ? input.pick(scene.people).handle : nil,
                    wantedHeight: UInt16(input.byte()) * 5)
            }
            scene.apply(.slots(handle, wishes))
        case 4:
            scene.people[person].isPlayedTo = true
            scene.apply(.sound(SoundID(3), packets: [[0xF8, 1, 2], [0xF8, 3]], isLast: true))
            let order = PromptOrder(
                prompt: PromptHandle(UInt64(input.byte()) + 1), sound: SoundID(3), times: UInt32(input.choice(4)),
                pause: .milliseconds(Int64(input.byte())))
            scene.apply(.play(handle, order))
        case 5: scene.apply(.stopPlaying(handle, PromptHandle(UInt64(input.byte()) + 1)))
        case 6:
            let session = scene.people[person].session
            scene.apply(.restartICE(handle, local: session.localICE, remote: session.remoteICE))
        default:
            switch input.byte() {
            case 0..<100: scene.letIn(person)
            case 200...: scene.apply(.remove(handle))
            default: break
            }
        }
    }

    private mutating func move(_ person: Int) {
        let address = PeerAddress(ipv4: 0x0A03_0000 + UInt32(person), port: 5_000 + UInt16(input.choice(12)))
        scene.check(person, from: address, nominates: input.flag())
        if input.flag() { scene.people[person].address = address }
        if input.choice(8) == 0 { scene.engine.forget(address) }
    }
}

private func bigEndian<Integer: FixedWidthInteger>(_ value: Integer) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { Array($0) }
}
