import RTPCore
import RelayCore
import RelayTesting

/// A media engine with people in one room, without handshakes: everybody's keys are made up here, so that a target can seal
/// what it likes. Holds everything that leaves the engine to what must always hold of it.
final class EngineScene {
    enum Kind: Int, CaseIterable { case pair, redundantPair, group }

    struct Person {
        let handle: ParticipantHandle
        let session: NegotiatedSession
        var address: PeerAddress
        /// The client's own: seals what the relay opens.
        let cipher: SRTPCipher
        var controlIndex: UInt32 = 0
        var isJoined: Bool
        /// Hears prompts, which may come before the join.
        var isPlayedTo = false
    }

    let engine: MediaEngine
    private(set) var now = Instant(nanoseconds: 1_000_000_000)
    var people: [Person] = []
    /// Where people are, or were.
    private var addresses: [PeerAddress: Int] = [:]
    private var transaction: UInt64 = 1
    private let isGroup: Bool
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 65_536)

    /// - Parameter unprepared: the last one has no keys yet.
    init(_ kind: Kind, unprepared: Bool = false) {
        isGroup = kind == .group
        var configuration = EngineConfiguration()
        configuration.maxTransports = 8
        configuration.historyByteCount = 1 << 18
        configuration.keptKeyFrameByteCount = 1 << 18
        configuration.transmitCapacity = 256
        engine = MediaEngine(configuration: configuration, random: .seeded(5), now: now)
        for (index, session) in Self.sessions[kind.rawValue].enumerated() {
            add(session, index, kind, hasKeys: !unprepared || index < 2)
        }
    }

    deinit {
        for person in people { person.cipher.destroy() }
        buffer.deallocate()
    }

    /// One who waits in a group joins.
    func letIn(_ index: Int) {
        guard isGroup, !people[index].isJoined else { return }
        people[index].isJoined = true
        apply(.join(people[index].handle))
    }

    private func add(_ session: NegotiatedSession, _ index: Int, _ kind: Kind, hasKeys: Bool) {
        let profile: SRTPProfile = index == 1 ? .aes128CMSHA1_80 : .aeadAES128GCM
        func secret(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte &+ UInt8(index), count: count) }
        let keys = SRTPKeys(
            profile: profile, receiveKey: secret(1, profile.keyByteCount),
            receiveSalt: secret(2, profile.saltByteCount),
            sendKey: secret(3, profile.keyByteCount), sendSalt: secret(4, profile.saltByteCount))
        let person = Person(
            handle: ParticipantHandle(UInt64(index + 1)), session: session,
            address: PeerAddress(ipv4: 0x0A01_0001 + UInt32(index), port: 5_000),
            cipher: .create(profile: profile, masterKey: keys.receiveKey, masterSalt: keys.receiveSalt),
            isJoined: hasKeys && index < (kind == .group ? 3 : 2))
        people.append(person)
        var configuration = TransportConfiguration(
            participant: person.handle, room: RoomHandle(1), isPeerRoom: kind != .group, joinsWhenReady: false,
            localICE: session.localICE, remoteICE: session.remoteICE, fingerprints: session.fingerprints,
            sections: session.sections)
        configuration.keepsKeyFrame = index == 0
        apply(.create(configuration))
        check(index, from: person.address, nominates: true)
        guard hasKeys else { return }
        engine.receive(.established(person.handle, keys), now: now)
        if person.isJoined { apply(.join(person.handle)) }
    }

    // MARK: What happens

    func apply(_ command: WorkerCommand) {
        engine.apply(command, now: now)
        settle()
    }

    /// An authentic check, which makes the address its sender's.
    func check(_ index: Int, from address: PeerAddress, nominates: Bool) {
        let session = people[index].session
        transaction += 1
        var check = TestCheck(
            transactionID: STUNTransactionID(high: 7, low: transaction), receiverUfrag: session.localICE.ufrag,
            senderUfrag: session.remoteICE.ufrag, password: session.localICE.password)
        check.nominates = nominates
        // Somebody else's stays theirs: the engine says no and answers.
        if addresses[address] == nil { addresses[address] = index }
        receive(check.bytes, from: address)
    }

    func receive(_ datagram: [UInt8], from address: PeerAddress) {
        guard !datagram.isEmpty, datagram.count <= 65_536 else { return }
        datagram.withUnsafeBufferPointer { buffer.update(from: $0.baseAddress.unsafelyUnwrapped, count: $0.count) }
        engine.receive(buffer, count: datagram.count, from: address, local: 0, now: now)
        engine.finishBatch(now: now)
        settle()
    }

    func pass(_ interval: Interval) {
        let end = now + interval
        var steps = 0
        while engine.deadline <= end {
            now = max(now, engine.deadline)
            engine.advance(to: now)
            settle()
            steps += 1
            require(steps < 20_000, "the engine's deadline does not move")
        }
        now = end
    }

    /// Only the clock moves.
    func tick() { now += .milliseconds(1) }

    // MARK: What must hold

    private func settle() {
        for index in 0..<engine.transmit.count {
            let entry = engine.transmit.entries[index]
            let byteCount = Int(entry.byteCount)
            require(byteCount > 0 && byteCount <= TransmitBatch.slotByteCount, "a datagram of \(byteCount) bytes")
            guard let owner = addresses[entry.peer] else { fatalError("broken promise: a stranger is answered") }
            let bytes = engine.transmit.slots + index * TransmitBatch.slotByteCount
            let kind = DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: byteCount)
            require(kind != .drop, "a datagram of no kind")
            guard kind == .rtp else { continue }
            require(people[owner].isJoined || people[owner].isPlayedTo, "media reaches somebody who has not joined")
        }
        engine.transmit.removeAll()
        _ = engine.takeHandshakeRequests()
        for news in engine.takeNews() {
            guard case .ended(let handle, _, _, _) = news else { continue }
            require(people.contains { $0.handle == handle }, "news of nobody")
        }
    }

    /// Negotiated once, for everybody of each kind of room.
    private static let sessions: [[NegotiatedSession]] = Kind.allCases.map { kind in
        (0..<(kind == .group ? 4 : 3)).map { index in session(kind, seed: UInt64(index + 1)) }
    }

    private static func session(_ kind: Kind, seed: UInt64) -> NegotiatedSession {
        var options = SimulatedClient.Options()
        options.seed = seed
        var policy = NegotiationPolicy(kind: .peer, media: .video, videoCodec: .vp8, grants: .standard)
        switch kind {
        case .pair: break
        case .redundantPair:
            options.offersRED = true
            options.offersReferenceTimes = true
            options.videoCodec = .h264
            policy.videoCodec = .h264
            policy.red = true
        case .group:
            policy.kind = .group
            options.streamIDs = ["q", "h", "f"]
            options.temporalLayerCount = 3
            options.extraAudioSlots = 1
            options.extraVideoSlots = 1
        }
        var random = RandomSource.seeded(seed &* 77)
        let endpoint = WorkerEndpoint(
            candidates: [.init(address: "192.0.2.1", port: 40_000)], fingerprint: [UInt8](repeating: 7, count: 32))
        do throws(Problem) {
            return try Negotiator.negotiate(
                offer: SimulatedClient(options, address: .none).offer(), policy: policy, endpoint: endpoint,
                random: &random)
        } catch {
            fatalError("the scene's own offer is refused: \(error.detail)")
        }
    }
}
