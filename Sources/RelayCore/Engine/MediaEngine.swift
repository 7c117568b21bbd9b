import RTPCore

public struct EngineConfiguration: Sendable {
    /// Transports at once; one more is refused as `handshakeFailed`.
    public var maxTransports = 8_192
    /// Memory for packets that may be asked for again, at most, shared by all tracks; touched only as far as it was needed.
    public var historyByteCount = 128 << 20
    /// Memory for key frames that callers asked to be kept while nobody gets their video.
    public var keptKeyFrameByteCount = 32 << 20
    /// Slots of the transmit batch; room for the widest fan-out of one packet is kept free.
    public var transmitCapacity = 512
    /// Our wall clock's time at instant 0: what sender reports tell receivers.
    public var clockOrigin = NTPTime(rawValue: 0)
    public init() {}
}

/// The worker's packet engine: ICE-lite, SRTP and forwarding for every participant on this worker. Takes datagrams, commands
/// and `now`; gives datagrams (`transmit`), handshake requests, news and the next deadline. Confined to one thread; reads no
/// clock, opens no socket, and does not know of rooms more than who is in them: outcomes are the conductor's.
public final class MediaEngine {
    public let transmit: TransmitBatch
    public let counters = EngineCounters()
    /// Control is away: a peer room's rule is ours to carry out (CALLS.md, "When processes die").
    public var isAlone = false
    /// Datagrams that the kernel dropped before anybody read them, as the shell counts; goes along with statistics.
    public var receiveOverflows: UInt64 = 0

    let configuration: EngineConfiguration
    let flows: FlowTable
    let timers: TimerWheel
    /// When who is heard and seen is chosen anew in a group room.
    let roomTimers: TimerWheel
    let history: PacketHistory
    let keptBytes: KeptBytes
    let sounds = SoundStore()
    let checkBudget: CheckBudget
    /// What recorded rooms sent since it was emptied.
    public let recorded = RecordedBatch()
    // Slabs, reached by transport index times the per-transport bound, or by index from a free list.
    let transports: UnsafeMutablePointer<Transport>
    let paths: UnsafeMutablePointer<Path>
    /// The first sources of each transport, and the further ones that few have: `sourceAt`.
    private let nearSources: UnsafeMutablePointer<Source>
    private let farSources: UnsafeMutablePointer<Source>
    let sourceSSRCs: UnsafeMutablePointer<UInt32>
    let rtcpContexts: UnsafeMutablePointer<RTCPContext>
    let referenceTimes: UnsafeMutablePointer<ReferenceTime>
    let tracks: Slab<Track>
    let subscriptions: Slab<Subscription>
    /// Header-extension elements of the packet at hand: sender's id, offset, byte count.
    let elements: UnsafeMutablePointer<(id: UInt8, offset: UInt16, byteCount: UInt8)>
    var elementCount = 0
    /// One of them fits the two-byte form only.
    var hasWideElement = false
    /// The newest earlier blocks of the RED packet at hand, oldest first, and the RED payload that is being written.
    let redBlocks: UnsafeMutablePointer<REDBlock>
    var redBlockCount = 0
    let redPayload: UnsafeMutablePointer<UInt8>
    /// Whom media has been made for in the batch at hand while feedback to them is soon due.
    let feedbackRiders: UnsafeMutablePointer<Int32>
    var feedbackRiderCount = 0
    /// The probe that the packet being written belongs to; 0: none.
    var activeProbe: UInt8 = 0

    var details: [TransportDetails?]
    var freeTransports: [Int32] = []
    /// Transports ever used; above it the slabs are untouched memory.
    var transportsUsed: Int32 = 0
    var transportByHandle: [ParticipantHandle: Int32] = [:]
    var transportByUfrag: [UInt64: Int32] = [:]
    var roomByHandle: [RoomHandle: Int32] = [:]
    var rooms: [EngineRoom?] = []
    var freeRooms: [Int32] = []
    var news: [WorkerNews] = []
    var handshakeRequests: [HandshakeRequest] = []
    /// Where the close_notify of a removed transport goes once the handshaker has made it.
    var goodbyes: [ParticipantHandle: (peer: PeerAddress, local: UInt8)] = [:]
    /// Our own small datagrams (STUN, RTCP) are built here.
    let scratch: UnsafeMutableBufferPointer<UInt8>
    /// What all our SDES and answers call us (RFC 3550 §6.5.1).
    let cname = Array(Negotiator.cname.utf8)
    var random: RandomSource
    /// Decoders that hear levels, what they may decode, and where to.
    var probeCount = 0
    var probeBudget = TokenBucket()
    let probeSamples: UnsafeMutablePointer<Int16>
    /// Widest fan-out any room needs, so that `needsFlush` keeps that much room.
    var widestRoom = 2 { didSet { keepRoom() } }
    /// Packets that one received packet may become for each receiver.
    var packetsOfOne = 1 { didSet { keepRoom() } }
    /// What one more packet may take of the batch.
    private var roomOfOne = 0

    public init(configuration: EngineConfiguration, random: RandomSource, now: Instant) {
        self.configuration = configuration
        self.random = random
        // A copy draws it: the engine's own numbers stay what their seed makes them.
        var draw = random
        checkBudget = CheckBudget(key: draw.next())
        let capacity = configuration.maxTransports
        precondition(capacity > 0 && capacity < 1 << 20, "maxTransports out of range")
        transmit = TransmitBatch(capacity: configuration.transmitCapacity)
        flows = FlowTable(minimumCapacity: 256)
        timers = TimerWheel(capacity: capacity, now: now)
        roomTimers = TimerWheel(capacity: capacity, now: now)
        history = PacketHistory(byteCount: configuration.historyByteCount)
        keptBytes = KeptBytes(limit: configuration.keptKeyFrameByteCount)
        transports = .allocate(capacity: capacity)
        paths = .allocate(capacity: capacity * Limits.pathsPerTransport)
        nearSources = .allocate(capacity: capacity * Limits.nearSources)
        farSources = .allocate(capacity: capacity * (Limits.sourcesPerTransport - Limits.nearSources))
        sourceSSRCs = .allocate(capacity: capacity * Limits.sourcesPerTransport)
        rtcpContexts = .allocate(capacity: capacity * Limits.sourcesPerTransport)
        referenceTimes = .allocate(capacity: capacity * Limits.referenceTimesPerTransport)
        tracks = Slab(capacity: capacity * 4)
        subscriptions = Slab(capacity: capacity * 8)
        elements = .allocate(capacity: 16)
        redBlocks = .allocate(capacity: RecentAudio.deepest)
        redPayload = .allocate(capacity: Limits.redPayloadByteCount)
        feedbackRiders = .allocate(capacity: Limits.feedbackRiders)
        scratch = .allocate(capacity: TransmitBatch.slotByteCount)
        scratch.initialize(repeating: 0)
        probeSamples = .allocate(capacity: LevelProbe.sampleCount)
        details = Array(repeating: nil, count: capacity)
        keepRoom()
    }

    private func keepRoom() { roomOfOne = min(widestRoom * packetsOfOne, transmit.capacity / 2) + 4 }

    deinit {
        for index in 0..<transportsUsed where transports[Int(index)].flags.contains(.live) { release(index) }
        transports.deallocate()
        paths.deallocate()
        nearSources.deallocate()
        farSources.deallocate()
        sourceSSRCs.deallocate()
        rtcpContexts.deallocate()
        referenceTimes.deallocate()
        elements.deallocate()
        redBlocks.deallocate()
        redPayload.deallocate()
        feedbackRiders.deallocate()
        scratch.deallocate()
        probeSamples.deallocate()
    }

    // MARK: What the shell calls

    /// Send `transmit` before the next `receive`: one more packet might not find room for all of its receivers.
    public var needsFlush: Bool { transmit.room < roomOfOne }

    /// Send `transmit` before the next command or handshake result: a gate that opens may send a whole key frame.
    public var needsFlushBeforeGates: Bool { transmit.room < KeyFrameKeeper.packetCount + widestRoom + 4 }

    /// When `advance` is wanted next.
    public var deadline: Instant { min(timers.deadline, roomTimers.deadline) }

    /// Transports that exist.
    public var transportCount: Int { transportByHandle.count }

    /// One received datagram of `count` bytes, decrypted in place.
    /// - Parameter local: index of the local address that it came to; answers leave from there.
    public func receive(
        _ bytes: UnsafeMutablePointer<UInt8>, count: Int, from peer: PeerAddress, local: UInt8, now: Instant
    ) {
        counters.packetsReceived &+= 1
        counters.bytesReceived &+= UInt64(truncatingIfNeeded: count)
        guard count > 1 else { return counters.drop(count == 1 ? .unknownClass : .empty) }
        switch DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: count) {
        case .rtp: receiveRTP(bytes, count: count, from: peer, now: now)
        case .rtcp: receiveRTCP(bytes, count: count, from: peer, now: now)
        case .stun: receiveSTUN(bytes, count: count, from: peer, local: local, now: now)
        case .dtls: receiveDTLS(bytes, count: count, from: peer, now: now)
        case .drop: counters.drop(.unknownClass)
        }
    }

    /// Whether an authenticated check has come from `peer`, and its session is still here.
    public func isKnown(_ peer: PeerAddress) -> Bool { flows.find(peer) != nil }

    /// The room of whoever is at `peer`.
    public func room(of peer: PeerAddress) -> RoomHandle? {
        flows.find(peer).flatMap { details[Int($0.transport)]?.configuration.room }
    }

    /// Whether anybody of the room is here.
    public func holds(_ room: RoomHandle) -> Bool {
        transportByHandle.values.contains { details[Int($0)]?.configuration.room == room }
    }

    /// Nothing can be sent to `peer` any more: its TCP connection is gone. Where it was the selected path the session has
    /// none until the client's next check, from wherever it comes; liveness runs on.
    public func forget(_ peer: PeerAddress) {
        guard let flow = flows.find(peer) else { return }
        abandon(flow.path, of: flow.transport)
    }

    /// Carries out what the conductor decided. Unknown handles are no-ops.
    public func apply(_ command: WorkerCommand, now: Instant) {
        switch command {
        case .create(let configuration): create(configuration, now: now)
        case .join(let handle):
            guard let index = transportByHandle[handle] else { return }
            join(index, now: now)
        case .remove(let handle):
            guard let index = transportByHandle[handle] else { return }
            remove(index, now: now)
        case .restartICE(let handle, let local, let remote):
            guard let index = transportByHandle[handle] else { return }
            restartICE(index, local: local, remote: remote, now: now)
        case .gates(let handle, let gates):
            guard let index = transportByHandle[handle] else { return }
            setGates(gates, of: index, now: now)
        case .slots(let handle, let wishes):
            guard let index = transportByHandle[handle] else { return }
            setWishes(wishes, of: index, now: now)
        case .sound(let id, let packets, let isLast): sounds.receive(id, packets: packets, isLast: isLast)
        case .play(let handle, let order):
            guard let index = transportByHandle[handle] else { return }
            play(order, to: index, now: now)
        case .stopPlaying(let handle, let prompt):
            guard let index = transportByHandle[handle] else { return }
            stopPlaying(index, prompt, now: now)
        case .record(let order): record(order, now: now)
        case .nameRecorded: break
        case .stopRecording(let recording): stopRecording(recording, now: now)
        case .adopted: isAlone = false
        // The shell looks at what comes and goes; the engine does not know.
        case .capture, .stopCapture: break
        case .shutDown:
            removeAll(now: now)
        }
    }

    /// Periodic work that is due: checks, liveness, reports, feedback, repair. Of at most `limit` transports and rooms: what
    /// is due of others stays due.
    public func advance(to now: Instant, limit: Int = .max) {
        var served = 0
        while served < limit, let index = timers.popDue(at: now) {
            service(index, now: now)
            served &+= 1
            if needsFlush {
                // The shell sends and comes back: what is due stays due.
                return
            }
        }
        while served < limit, let room = roomTimers.popDue(at: now) {
            serviceRoom(room, now: now)
            served &+= 1
        }
    }

    /// Requests for the handshaker since the last call, in order.
    public func takeHandshakeRequests() -> [HandshakeRequest] {
        guard !handshakeRequests.isEmpty else { return [] }
        defer { handshakeRequests.removeAll(keepingCapacity: true) }
        return handshakeRequests
    }

    /// Media facts since the last call, in order.
    public func takeNews() -> [WorkerNews] {
        guard !news.isEmpty else { return [] }
        defer { news.removeAll(keepingCapacity: true) }
        return news
    }

    /// Every transport, for the hello.
    public func snapshot() -> [TransportSnapshot] {
        transportByHandle.values.sorted().compactMap { index in
            let transport = transports[Int(index)]
            guard let details = details[Int(index)] else { return nil }
            let phase: TransportPhase =
                transport.flags.contains(.joined)
                ? .joined : transport.flags.contains(.hasKeys) ? .prepared : .connecting
            return TransportSnapshot(
                participant: transport.handle, room: details.configuration.room, phase: phase,
                isInterrupted: transport.flags.contains(.interrupted), since: transport.phaseSince,
                gates: transport.gates, slots: occupants(of: index), isSpeaker: isSpeaker(index),
                prompt: transport.player?.pointee.order.prompt)
        }
    }

    /// Sends close_notify to everybody and forgets them: the process is about to end.
    public func removeAll(now: Instant) {
        for index in transportByHandle.values.sorted() { remove(index, now: now) }
    }

    // MARK: Sending

    /// Sends a datagram of ours (not media) to a path, held to the amplification bound until the path is validated.
    func send(_ bytes: UnsafePointer<UInt8>, count: Int, to path: UnsafeMutablePointer<Path>) {
        if !path.pointee.isValidated {
            let bound = path.pointee.bytesReceived * UInt64(Limits.unvalidatedAmplification)
            guard path.pointee.bytesSent + UInt64(count) <= bound else {
                return counters.drop(.sendBeforeValidation)
            }
        }
        guard let slot = transmit.reserve() else { return counters.drop(.transmitFull) }
        slot.update(from: bytes, count: count)
        transmit.commit(byteCount: count, to: path.pointee.address, local: path.pointee.local)
        path.pointee.bytesSent += UInt64(count)
    }

    /// Source number `index`: the transport's times `sourcesPerTransport`, and its own. Memory is touched by pages, so what few
    /// need lies apart from what all need.
    @inline(__always) func sourceAt(_ index: Int) -> UnsafeMutablePointer<Source> {
        let (transport, k) = UInt(bitPattern: index).quotientAndRemainder(dividingBy: UInt(Limits.sourcesPerTransport))
        let (near, far) = (UInt(Limits.nearSources), UInt(Limits.sourcesPerTransport - Limits.nearSources))
        return k < near
            ? nearSources + Int(bitPattern: transport &* near &+ k)
            : farSources + Int(bitPattern: transport &* far &+ k &- near)
    }

    @inline(__always) func pathAt(_ transport: Int32, _ path: Int32) -> UnsafeMutablePointer<Path> {
        paths + (Int(transport) &* Limits.pathsPerTransport &+ Int(path))
    }

    /// Records that something of `index` was authenticated, over `pathIndex`.
    @inline(__always) func authenticated(_ index: Int32, path pathIndex: Int32, count: Int, now: Instant) {
        let transport = transports + Int(index)
        transport.pointee.lastAuthenticated = now
        let path = pathAt(index, pathIndex)
        path.pointee.lastReceived = now
        path.pointee.bytesReceived &+= UInt64(truncatingIfNeeded: count)
        if transport.pointee.flags.contains(.interrupted) { recovered(index, now: now) }
    }
}
