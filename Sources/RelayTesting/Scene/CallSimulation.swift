import RTPCore
import RelayCore

/// Rooms full of people who come, join, move, go silent and leave on a bad network, all by one seed. What must hold is checked
/// at every step, and again when everything has calmed down; what did not hold is told in words, never trapped, so that a
/// test can print the seed beside it.
///
/// One seed gives one run, except for what OpenSSL draws: that changes no time and no count.
public final class CallSimulation {
    public struct Options: Sendable {
        public var seed: UInt64 = 1
        public var duration = Interval.seconds(12)
        public var roomCount = 3
        /// People per room who may be in at once, 2…8.
        public var peoplePerRoom = 3
        /// Slots of each kind that everybody has; nil: one for each of the others. With fewer, people talk and pin much.
        public var slotCount: Int?
        /// Of every link, unless chance makes one worse for a while.
        public var quality = VirtualNetwork.Quality(
            loss: 0.02, delay: .milliseconds(15), jitter: .milliseconds(5), reordering: 0.01)
        /// Mean time between two things that people do, in the whole scene.
        public var pace = Interval.milliseconds(150)
        public init() {}
    }

    public let options: Options
    public let scene: CallScene
    /// What did not hold, in the order found; at most 50.
    public private(set) var violations: [String] = []
    /// How often each kind of thing was done.
    public private(set) var deeds: [String: Int] = [:]

    private var random: RandomSource
    private let rooms: [RoomHandle]
    private var present: [[CallScene.Participant]]
    private var everybody: [CallScene.Participant] = []
    /// Client tags that ever joined a room: the only ones that may be heard there.
    private var joinedTags: [RoomHandle: Set<UInt32>] = [:]
    private let identity = DTLSClientIdentity()
    private var nextAddress: UInt32 = 0x0A20_0000
    private var seenNews = 0
    /// Whose transport the engine must have.
    private var live: Set<ParticipantHandle> = []
    private var phases: [ParticipantHandle: NewsPhase] = [:]
    /// Who is on hold.
    private var held: [ParticipantHandle: Bool] = [:]

    private struct NewsPhase {
        var isPrepared = false
        var isJoined = false
        var isInterrupted = false
        var hasEnded = false
    }

    public init(_ options: Options) throws {
        precondition((2...8).contains(options.peoplePerRoom), "two to eight people per room")
        self.options = options
        scene = try CallScene(seed: options.seed, quality: options.quality)
        random = .seeded(options.seed ^ 0x5151_5151)
        rooms = (0..<options.roomCount).map { [scene] _ in scene.makeRoom() }
        present = rooms.map { _ in [] }
    }

    /// Runs the whole thing: the time of the options, then calm, then everybody leaves.
    public func run() throws {
        scene.invariant = { [unowned self] _ in checkStep() }
        scene.onTransmit = { [unowned self] bytes, peer in checkHold(bytes, peer) }
        let end = scene.now + options.duration
        while scene.now < end {
            scene.run(for: .nanoseconds(Int64.random(in: 0...2 * options.pace.nanoseconds, using: &random)))
            try doSomething()
        }
        calmDown()
        checkStreams()
        leaveAll()
        scene.invariant = nil
        scene.onTransmit = nil
    }

    // MARK: - What people do

    private func doSomething() throws {
        let room = Int.random(in: 0..<rooms.count, using: &random)
        present[room].removeAll { scene.end(of: $0) != nil || $0.hasLeft }
        let someone = present[room].randomElement(using: &random)
        if options.slotCount != nil, let someone, Bool.random(using: &random) { return talkOrPin(someone, in: room) }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30: try come(to: room)
        case 30..<60: if let someone { join(someone) }
        case 60..<66: if let someone { note("leave") { scene.leave(someone) } }
        case 66..<70: if let someone { note("remove") { remove(someone) } }
        case 70..<73:
            if let someone {
                note("vanish") { someone.client.vanish() }
                someone.hasLeft = true
            }
        case 73..<80: if let someone { note("move") { scene.move(someone, to: freshAddress()) } }
        case 80..<83: if let someone { note("restart") { scene.restartICE(someone, to: freshAddress()) } }
        case 83..<87: if let someone { outage(someone) }
        case 87..<91: if let someone { note("wish") { scene.act(someone.client) { $0.requestKeyFrame() } } }
        case 91..<95: if let someone { note("mute") { mute(someone) } }
        case 95..<97: if let someone { changeSSRC(someone) }
        case 97..<99: if let someone { changeGates(of: someone) }
        default: note("junk") { injectJunk() }
        }
    }

    private func come(to room: Int) throws {
        guard present[room].count < options.peoplePerRoom else { return }
        let slots = options.slotCount ?? options.peoplePerRoom - 1
        let dialects: [ClientDialect] = [.chromium, .firefox, .libwebrtc, .aiortc]
        let client = scene.makeClient {
            $0.identity = identity
            $0.dialect = dialects.randomElement(using: &random) ?? .libwebrtc
            $0.extraAudioSlots = slots - 1
            $0.extraVideoSlots = slots - 1
            $0.videoInterval = .milliseconds(100)
            $0.videoPayloadByteCount = 600
            $0.packetsPerKeyFrame = 4
        }
        let joins = Bool.random(using: &random)
        let participant = try scene.prepare(client, in: rooms[room], kind: .group, joins: joins)
        present[room].append(participant)
        everybody.append(participant)
        live.insert(participant.handle)
        if joins { joinedTags[rooms[room], default: []].insert(client.tag) }
        note("come") {}
    }

    private func remove(_ participant: CallScene.Participant) {
        live.remove(participant.handle)
        scene.remove(participant)
    }

    private func join(_ participant: CallScene.Participant) {
        joinedTags[participant.room, default: []].insert(participant.client.tag)
        note("join") { scene.join(participant) }
    }

    /// Nothing comes through to or from somebody for a while.
    private func outage(_ participant: CallScene.Participant) {
        let address = participant.client.address
        let dead = VirtualNetwork.Quality(loss: 1)
        note("outage") {
            scene.network.setQuality(dead, from: address, to: CallScene.relayAddress)
            scene.network.setQuality(dead, from: CallScene.relayAddress, to: address)
        }
        scene.schedule(after: .milliseconds(Int64.random(in: 100...9_000, using: &random))) { [unowned self] in
            scene.network.setQuality(nil, from: address, to: CallScene.relayAddress)
            scene.network.setQuality(nil, from: CallScene.relayAddress, to: address)
        }
    }

    private func mute(_ participant: CallScene.Participant) {
        let kind = Bool.random(using: &random) ? MediaKind.audio : .video
        participant.client.mute(kind, Bool.random(using: &random))
    }

    private func changeSSRC(_ participant: CallScene.Participant) {
        guard participant.client.isConnected else { return }
        let ssrc = UInt32.random(in: 1...UInt32.max, using: &random)
        let kind = Bool.random(using: &random) ? MediaKind.audio : .video
        note("ssrc") { participant.client.changeSSRC(kind, to: ssrc) }
    }

    /// Mutes, holds, or lets everything pass again.
    private func changeGates(of participant: CallScene.Participant) {
        let gates = MediaGates(rawValue: Bool.random(using: &random) ? UInt8.random(in: 0...127, using: &random) : 0)
        held[participant.handle] = gates.contains(.held) ? true : nil
        note("gates") { scene.setGates(gates, of: participant) }
    }

    /// Speaks up or falls silent, or wishes to see somebody.
    private func talkOrPin(_ participant: CallScene.Participant, in room: Int) {
        if Int.random(in: 0..<4, using: &random) > 0 {
            let level = Bool.random(using: &random) ? 127 : UInt8.random(in: 10...70, using: &random)
            return note("talk") { participant.client.audioLevel = level }
        }
        let slots = participant.session.sections.indices.filter {
            participant.session.sections[$0].kind == .video && participant.session.sections[$0].clientReceives
        }
        let wishes = slots.filter { _ in Bool.random(using: &random) }.map { slot in
            SlotWish(
                section: UInt8(slot), pinned: everybody.randomElement(using: &random)?.handle,
                wantedHeight: UInt16.random(in: 0...1_080, using: &random))
        }
        note("pin") { scene.command(.slots(participant.handle, wishes)) }
    }

    /// Random bytes that look like one of the protocols, from a stranger or in somebody's name.
    private func injectJunk() {
        let firsts: [UInt8] = [0, 1, 22, 20, 21, 0x80, 0x90, 0xB0]
        let victim = everybody.randomElement(using: &random)?.client.address
        for _ in 0..<20 {
            var bytes = (0..<Int.random(in: 1...300, using: &random)).map { _ in
                UInt8(truncatingIfNeeded: random.next())
            }
            bytes[0] = firsts.randomElement(using: &random) ?? 0
            let stranger = PeerAddress(ipv4: 0x0A66_0000 + UInt32.random(in: 0..<256, using: &random), port: 9)
            let from = Bool.random(using: &random) ? victim ?? stranger : stranger
            scene.inject(bytes, from: from)
        }
    }

    private func freshAddress() -> PeerAddress {
        nextAddress += 1
        return PeerAddress(ipv4: nextAddress, port: 5_000)
    }

    private func note(_ deed: String, _ act: () -> Void) {
        deeds[deed, default: 0] += 1
        act()
    }

    // MARK: - What must hold

    private func violate(_ text: String) {
        if violations.count < 50 { violations.append("at \(scene.now.nanoseconds / 1_000_000) ms: \(text)") }
    }

    private func expect(_ condition: Bool, _ text: @autoclosure () -> String) {
        if !condition { violate(text()) }
    }

    /// After every step.
    private func checkStep() {
        for news in scene.news[seenNews...] { checkGrammar(news) }
        seenNews = scene.news.count
        expect(
            scene.engine.transportCount == live.count,
            "\(scene.engine.transportCount) transports for \(live.count) participants")
    }

    /// No media goes to whoever is on hold.
    private func checkHold(_ bytes: [UInt8], _ peer: PeerAddress) {
        guard !held.isEmpty, bytes.count > 1,
            DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: bytes.count) == .rtp
        else { return }
        let receiver = everybody.last { $0.client.address == peer && live.contains($0.handle) }
        if let receiver, held[receiver.handle] == true { violate("media was sent to somebody on hold") }
    }

    /// One participant's news have an order: prepared, joined, then interrupted and recovered in turn, ended last and once.
    private func checkGrammar(_ news: WorkerNews) {
        guard let handle = news.participant else { return }
        var phase = phases[handle] ?? NewsPhase()
        expect(!phase.hasEnded, "news of \(handle.value) after its end: \(news)")
        switch news {
        case .prepared:
            expect(!phase.isPrepared, "prepared twice")
            phase.isPrepared = true
        case .joined:
            expect(phase.isPrepared && !phase.isJoined, "joined before prepared, or twice")
            phase.isJoined = true
        case .interrupted:
            expect(phase.isPrepared && !phase.isInterrupted, "interrupted twice, or before prepared")
            phase.isInterrupted = true
        case .recovered:
            expect(phase.isInterrupted, "recovered without interruption")
            phase.isInterrupted = false
        case .ended:
            phase.hasEnded = true
            live.remove(handle)
        case .removed:
            phase.hasEnded = true
        case .slots(_, let slots, _):
            expect(phase.isJoined, "slots of somebody who has not joined")
            checkSlots(slots, of: handle)
        case .played:
            expect(phase.isPrepared, "a prompt was heard by somebody without keys")
        case .media, .statistics, .speaker:
            expect(phase.isJoined, "media news of somebody who has not joined: \(news)")
        case .pathChanged:
            expect(phase.isPrepared, "a path change before prepared")
        case .recorded: break
        }
        phases[handle] = phase
    }

    /// Somebody else of the room is in each slot, and in one of a kind only.
    private func checkSlots(_ slots: [SlotOccupant], of handle: ParticipantHandle) {
        guard let receiver = everybody.first(where: { $0.handle == handle }) else { return violate("slots of nobody") }
        var seen: Set<[UInt64]> = []
        for slot in slots {
            let sender = everybody.first { $0.handle == slot.sender }
            expect(slot.sender != handle && sender?.room == receiver.room, "a stranger in a slot, or oneself")
            let kind = receiver.session.sections[Int(slot.section)].kind
            expect(seen.insert([slot.sender.value, UInt64(kind.rawValue)]).inserted, "somebody in two slots")
        }
    }

    /// What everybody received, looked at in full.
    private func checkStreams() {
        for participant in everybody {
            let client = participant.client
            expect(client.counters.unauthenticRelayChecks == 0 || !client.isConnected, "a check that does not verify")
            expect(client.counters.replayedRTP == 0, "\(client.counters.replayedRTP) packets with a used index")
            expect(client.counters.replayedRTCP == 0, "RTCP with a used index")
            expect(client.counters.unopenedRTP == 0, "\(client.counters.unopenedRTP) packets that do not open")
            expect(client.counters.unknownSSRC == 0, "media on an SSRC that was not announced")
            for stream in client.received.values { check(stream, of: participant) }
        }
    }

    private func check(_ stream: ReceivedStream, of participant: CallScene.Participant) {
        let allowed = (joinedTags[participant.room] ?? []).subtracting([participant.client.tag])
        expect(stream.packets.allSatisfy { $0.stamp != nil }, "a payload that was changed on its way")
        let senders = Set(stream.packets.compactMap(\.stamp?.sender))
        expect(senders.isSubset(of: allowed), "somebody is heard who is not in the room, or oneself")
        var seen: Set<MediaStamp> = []
        for packet in stream.packets {
            guard let stamp = packet.stamp else { continue }
            if !seen.insert(stamp).inserted { violate("\(stream.kind) packet \(stamp.number) came twice") }
        }
        var latest: [UInt32: UInt64] = [:]
        var time: UInt32?
        for packet in stream.sorted {
            guard let stamp = packet.stamp else { continue }
            if let before = latest[stamp.sender], stamp.number < before { violate("\(stream.kind) out of order") }
            latest[stamp.sender] = stamp.number
            if let time, Int32(bitPattern: packet.timestamp &- time) < 0 {
                violate("\(stream.kind) timestamps go back by \(time &- packet.timestamp)")
            }
            time = packet.timestamp
        }
    }

    // MARK: - Calm

    /// The network heals and people do nothing more: soon everybody who can hear somebody does.
    private func calmDown() {
        scene.network.quality = .perfect
        for participant in everybody {
            scene.network.setQuality(nil, from: participant.client.address, to: CallScene.relayAddress)
            scene.network.setQuality(nil, from: CallScene.relayAddress, to: participant.client.address)
            participant.client.mute(.audio, false)
            participant.client.mute(.video, false)
            held[participant.handle] = nil
            scene.setGates([], of: participant)
        }
        // Whoever vanished would keep its slots until it counts as lost.
        for participant in everybody where participant.client.phase == .closed && live.contains(participant.handle) {
            remove(participant)
        }
        // Whoever moved twice within a second is followed at its client's next check, which comes each 5 s.
        scene.run(for: .seconds(7))
        for room in rooms.indices {
            let people = everybody.filter {
                $0.room == rooms[room] && !$0.hasLeft && $0.client.isConnected && phases[$0.handle]?.isJoined == true
                    && phases[$0.handle]?.hasEnded != true
            }
            for receiver in people {
                if let slots = options.slotCount, slots < people.count - 1 {
                    checkFull(receiver, slots)
                } else {
                    for sender in people where sender !== receiver { checkHearing(receiver, sender) }
                }
            }
        }
    }

    private func checkHearing(_ receiver: CallScene.Participant, _ sender: CallScene.Participant) {
        for kind in MediaKind.allCases {
            let recent = receiver.client.received.values.contains { stream in
                stream.kind == kind
                    && stream.packets.suffix(40).contains {
                        $0.stamp?.sender == sender.client.tag && scene.now - $0.arrivedAt < .seconds(1)
                    }
            }
            expect(
                recent,
                "no \(kind) to \(receiver.handle.value) from \(sender.handle.value), joined in the same room: "
                    + "\(scene.engine.snapshot().filter { $0.room == receiver.room })")
        }
    }

    /// Something comes on every slot.
    private func checkFull(_ receiver: CallScene.Participant, _ slots: Int) {
        for kind in MediaKind.allCases {
            let alive = receiver.client.received.values.count { stream in
                stream.kind == kind && stream.lastArrival.map { scene.now - $0 < .seconds(1) } ?? false
            }
            expect(alive == slots, "\(alive) of \(slots) \(kind) slots of \(receiver.handle.value) carry something")
        }
    }

    private func leaveAll() {
        for participant in everybody where live.contains(participant.handle) { remove(participant) }
        scene.run(for: .seconds(1))
        expect(scene.engine.transportCount == 0, "transports stay when everybody is gone")
        expect(scene.handshaker.count == 0, "associations stay when everybody is gone")
        expect(scene.engine.deadline == .distantFuture, "timers stay when everybody is gone")
        expect(scene.handshaker.deadline == .distantFuture, "handshake timers stay when everybody is gone")
    }
}
