import RTPCore
import RelayCore

// What must hold in every scene at every step, and questions that tests ask often.

extension CallScene {
    /// Traps when the engine broke a promise: these are our own faults, never a client's.
    func checkAlways() {
        func hold(_ condition: Bool, _ promise: String) {
            precondition(condition, "seed \(seed), at \(now.nanoseconds / 1_000_000) ms: \(promise)")
        }
        hold(engine.deadline > now || stepHasWork, "the engine's deadline stays behind after advance")
        for participant in participants {
            let client = participant.client
            hold(client.counters.improperRelayChecks == 0, "the relay sent a check no lite agent may send")
            hold(client.counters.malformedRTCP == 0, "the relay sent malformed RTCP")
            hold(client.counters.replayedRTP == 0 || mayDuplicate, "the relay used a packet index twice")
            guard !participant.hasJoined, !participant.wasPlayedTo else { continue }
            for stream in client.received.values {
                hold(stream.packetCount == 0, "media reached somebody who has not joined")
            }
        }
    }

    /// The network itself may have doubled packets.
    private var mayDuplicate: Bool { network.counters.duplicated > 0 }
    private var stepHasWork: Bool { network.deadline <= now }

    public func news(of participant: Participant) -> [WorkerNews] {
        news.filter { $0.participant == participant.handle }
    }

    public func isPrepared(_ participant: Participant) -> Bool {
        news.contains { if case .prepared(participant.handle, _) = $0 { true } else { false } }
    }
    public func isJoined(_ participant: Participant) -> Bool {
        news.contains { if case .joined(participant.handle, _) = $0 { true } else { false } }
    }
    public func end(of participant: Participant) -> TransportEnd? {
        for case .ended(participant.handle, let reason, _, _) in news { return reason }
        return nil
    }
    public func interruptions(of participant: Participant) -> Int {
        news.count { if case .interrupted(participant.handle, _) = $0 { true } else { false } }
    }
    public func recoveries(of participant: Participant) -> Int {
        news.count { if case .recovered(participant.handle, _) = $0 { true } else { false } }
    }
    public func pathChanges(of participant: Participant) -> Int {
        news.count { if case .pathChanged(participant.handle, _) = $0 { true } else { false } }
    }

    /// Two clients of a peer room, both prepared; joined too when asked.
    public func makePair(
        joined: Bool = true, _ change: (inout SimulatedClient.Options) -> Void = { _ in }
    ) throws -> (Participant, Participant) {
        let room = makeRoom()
        let first = try prepare(makeClient(change), in: room)
        let second = try prepare(makeClient(change), in: room)
        let arePrepared = run(until: {
            self.isPrepared(first) && self.isPrepared(second) && first.client.isConnected
                && second.client.isConnected
        })
        precondition(arePrepared, "two clients on this network do not connect")
        if joined {
            join(first)
            join(second)
        }
        return (first, second)
    }
}
