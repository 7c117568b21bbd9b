import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Real clients on a real engine, whose news go to a real conductor: what the record says of each leg is held against
/// what the network did to it.
@Suite("Call records of real media") struct CallRecordScenarioTests {
    /// A peer call of alice and ben. The conductor names transports by handles of its own; the scene's stand for them.
    private final class RecordedCall {
        let scene: CallScene
        let room: RoomID
        private let conductor: Conductor
        private let worker = WorkerID(index: 0, epoch: 1)
        private let sceneRoom: RoomHandle
        private var handles: [ParticipantHandle: CallScene.Participant] = [:]
        private var names: [ParticipantHandle: ParticipantHandle] = [:]
        private var heard = 0
        private var requests: UInt64 = 0
        private(set) var records: [CallRecord] = []
        private(set) var events: [RelayEvent] = []
        private(set) var alice: CallScene.Participant!
        private(set) var ben: CallScene.Participant!

        init(seed: UInt64 = 1) throws {
            scene = try CallScene(seed: seed)
            sceneRoom = scene.makeRoom()
            room = try #require(RoomID("r"))
            conductor = Conductor(
                configuration: ConductorConfiguration(), random: .seeded(seed), restoring: [], idempotency: [],
                nextSeq: 1, isSameBoot: true, knownEnded: { _ in nil })
            let endpoint = WorkerEndpoint(
                candidates: [.init(address: "192.0.2.1", port: 40_000)], fingerprint: [UInt8](repeating: 7, count: 32))
            decide(
                .workerConnected(
                    WorkerHello(worker: worker, processID: 1, endpoint: endpoint, transports: [], news: [])))
            var specification = RoomSpecification(id: room, kind: .peer, media: .video)
            specification.ring = RingSpecification(caller: "alice", callees: ["ben"])
            request(.server(keyID: "k"), .createRoom(specification))
            alice = try prepare("alice")
            ben = try prepare("ben")
            scene.run(until: { [unowned self] in
                scene.isPrepared(alice) && scene.isPrepared(ben) && alice.client.isConnected && ben.client.isConnected
            })
            hear()
            try join("ben", ben)
            try join("alice", alice)
        }

        private func token(_ uid: String) -> Principal {
            .participant(ParticipantIdentity(uid: uid, device: "phone", room: room, grants: .standard))
        }

        private func prepare(_ uid: String) throws -> CallScene.Participant {
            let client = scene.makeClient()
            let reply = request(token(uid), .prepare(room, state: .prepared, offer: client.offer()))
            guard case .prepared(let id, _, _, _)? = reply,
                let named = conductor.record(of: room)?.participants.first(where: { $0.id == id })?.handle
            else { throw Failure.notPrepared }
            let participant = try scene.prepare(client, in: sceneRoom)
            handles[named] = participant
            names[participant.handle] = named
            return participant
        }

        private func join(_ uid: String, _ participant: CallScene.Participant) throws {
            let named = try #require(names[participant.handle])
            let record = try #require(conductor.record(of: room)?.participants.first { $0.handle == named })
            request(token(uid), .join(room, record.id, endOthers: false, takeover: false))
        }

        /// The media runs, and the conductor hears of it.
        func run(for interval: Interval) {
            let end = scene.now + interval
            while scene.now < end {
                scene.run(for: min(.milliseconds(100), end - scene.now))
                hear()
            }
        }

        func hangUp(_ uid: String) throws -> CallRecord {
            request(token(uid), .end(room, .ended, uid: nil, scope: .user))
            hear()
            return try #require(records.last)
        }

        private func hear() {
            while heard < scene.news.count {
                let news = scene.news[heard]
                heard += 1
                guard let handle = news.participant, let named = names[handle] else { continue }
                decide(.news(worker, news.of(named)))
            }
        }

        @discardableResult
        private func request(_ principal: Principal, _ request: ControlRequest) -> ControlReply? {
            requests += 1
            return decide(.request(RequestID(requests), principal, request)).replies.first?.reply
        }

        @discardableResult
        private func decide(_ input: ConductorInput) -> ConductorTurn {
            let turn = conductor.decide(input, now: scene.now, wallClockMs: scene.now.nanoseconds / 1_000_000)
            records += turn.calls
            events += turn.events
            for (_, command) in turn.commands {
                switch command {
                case .join(let handle): if let participant = handles[handle] { scene.join(participant) }
                case .remove(let handle): if let participant = handles[handle] { scene.remove(participant) }
                default: break
                }
            }
            return turn
        }

        var quality: [String] {
            events.filter { $0.type == .participantQuality }.map { event in
                guard case .string(let grade)? = event.data.first?.value,
                    case .string(let leg)? = event.data.dropFirst().first?.value
                else { return "?" }
                return "\(event.uid ?? "") \(grade) \(leg)"
            }
        }
    }

    private enum Failure: Error { case notPrepared }

    private func leg(_ uid: String, _ record: CallRecord) throws -> TransportStatistics {
        try #require(record.legs.first { $0.uid == uid }).statistics
    }

    @Test("a call without loss has none in its record, and every figure of both legs") func clean() throws {
        let call = try RecordedCall()
        call.run(for: .seconds(10))
        let record = try call.hangUp("ben")
        #expect(record.isComplete && record.outcome == .ended && record.durationMs >= 9_900)
        for uid in ["alice", "ben"] {
            let leg = try leg(uid, record)
            #expect(leg.packetsReceived > 900 && leg.packetsSent > 900 && leg.bytesReceived > 100_000)
            #expect(leg.packetsLost == 0 && leg.remotePacketsLost == 0)
            #expect(leg.remotePacketsExpected > 700 && leg.remotePacketsExpected <= leg.packetsSent)
            #expect((19_000...21_000).contains(leg.meanRoundTripMicroseconds))
            #expect(leg.smallestRoundTripMicroseconds <= leg.roundTripMicroseconds)
            #expect(leg.largestRoundTripMicroseconds >= leg.meanRoundTripMicroseconds && leg.roundTripCount >= 8)
            #expect((15...60).contains(leg.largestAudioGapMs), "20 ms apart: \(leg.largestAudioGapMs)")
            #expect((30...120).contains(leg.largestVideoGapMs), "a frame apart: \(leg.largestVideoGapMs)")
            #expect(leg.pathChanges == 0)
            let notes = try #require(record.legs.first { $0.uid == uid }).notes
            #expect(notes.firstAudioAtMs != nil && notes.firstVideoAtMs != nil)
        }
        #expect(call.quality.isEmpty)
    }

    @Test("loss on one way of one leg is blamed on that way of that leg and on no other", arguments: [true, false])
    func blame(isUplink: Bool) throws {
        let call = try RecordedCall(seed: 5)
        call.run(for: .seconds(2))
        let client = call.alice.client.address
        call.scene.network.setQuality(
            .init(loss: 0.1), from: isUplink ? client : CallScene.relayAddress,
            to: isUplink ? CallScene.relayAddress : client)
        call.run(for: .seconds(20))
        call.scene.network.setQuality(nil, from: client, to: CallScene.relayAddress)
        call.scene.network.setQuality(nil, from: CallScene.relayAddress, to: client)
        call.run(for: .seconds(12))
        let record = try call.hangUp("alice")
        let alice = try leg("alice", record)
        let ben = try leg("ben", record)
        let lost = isUplink ? alice.packetsLost : alice.remotePacketsLost
        let sent = isUplink ? alice.packetsReceived : alice.packetsSent
        // 20 of 34 s at 10 %.
        #expect((sent * 3 / 100...sent * 9 / 100).contains(lost), "\(lost) of \(sent)")
        let others = [
            isUplink ? alice.remotePacketsLost : alice.packetsLost, ben.packetsLost, ben.remotePacketsLost,
        ]
        #expect(others.allSatisfy { $0 <= 2 }, "\(others) of \(lost)")
        let way = isUplink ? "uplink" : "downlink"
        #expect(call.quality.allSatisfy { $0.hasPrefix("alice ") && $0.hasSuffix(way) }, "\(call.quality)")
        #expect(call.quality.last == "alice good \(way)" && call.quality.count >= 2, "\(call.quality)")
    }

    @Test("a silence is the longest gap of whoever fell silent, also when it lasts to the end") func gap() throws {
        let call = try RecordedCall()
        call.run(for: .seconds(2))
        let address = call.alice.client.address
        call.scene.network.loses = { from, _, bytes in from == address && bytes[0] & 0xC0 == 0x80 }
        call.run(for: .milliseconds(1_500))
        call.scene.network.loses = nil
        call.run(for: .seconds(2))
        let benAddress = call.ben.client.address
        call.scene.network.loses = { from, _, bytes in from == benAddress && bytes[0] & 0xC0 == 0x80 }
        call.run(for: .milliseconds(2_500))
        let record = try call.hangUp("alice")
        let alice = try leg("alice", record)
        let ben = try leg("ben", record)
        #expect((1_480...1_600).contains(alice.largestAudioGapMs), "\(alice.largestAudioGapMs)")
        #expect((1_480...1_650).contains(alice.largestVideoGapMs), "\(alice.largestVideoGapMs)")
        #expect((2_480...2_600).contains(ben.largestAudioGapMs), "\(ben.largestAudioGapMs)")
    }

    @Test("a moved path is counted on the leg that moved") func paths() throws {
        let call = try RecordedCall()
        call.run(for: .seconds(2))
        call.scene.move(call.ben, to: PeerAddress(ipv4: 0x0A02_0001, port: 7_000))
        call.run(for: .seconds(4))
        let record = try call.hangUp("alice")
        #expect(try leg("ben", record).pathChanges == 1)
        #expect(try leg("alice", record).pathChanges == 0)
    }

    @Test("the jitter of a way is its own") func jitter() throws {
        let call = try RecordedCall(seed: 3)
        let client = call.ben.client.address
        call.scene.network.setQuality(.init(jitter: .milliseconds(40)), from: CallScene.relayAddress, to: client)
        call.run(for: .seconds(10))
        let record = try call.hangUp("ben")
        let ben = try leg("ben", record)
        let alice = try leg("alice", record)
        #expect(ben.largestRemoteJitterMicroseconds > 5_000, "\(ben.largestRemoteJitterMicroseconds)")
        #expect(ben.largestJitterMicroseconds < 3_000, "\(ben.largestJitterMicroseconds)")
        #expect(alice.largestJitterMicroseconds < 3_000 && alice.largestRemoteJitterMicroseconds < 3_000)
    }
}

extension WorkerNews {
    /// The same about another participant.
    fileprivate func of(_ handle: ParticipantHandle) -> WorkerNews {
        switch self {
        case .prepared(_, let at): .prepared(handle, at: at)
        case .joined(_, let at): .joined(handle, at: at)
        case .ended(_, let end, let at, let statistics): .ended(handle, end, at: at, statistics)
        case .interrupted(_, let at): .interrupted(handle, at: at)
        case .recovered(_, let at): .recovered(handle, at: at)
        case .pathChanged(_, let at): .pathChanged(handle, at: at)
        case .media(_, let kind, let at): .media(handle, kind, at: at)
        case .statistics(_, let statistics, let at): .statistics(handle, statistics, at: at)
        case .slots(_, let occupants, let at): .slots(handle, occupants, at: at)
        case .speaker(_, let at): .speaker(handle, at: at)
        case .played(_, let prompt, let end, let at): .played(handle, prompt, end, at: at)
        case .recorded: self
        case .removed(_, let statistics, let at): .removed(handle, statistics, at: at)
        }
    }
}
