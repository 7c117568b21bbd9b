import RTPCore

// Whether a record that was read can be gone on from. The journal is ours, its disk is not: a record with a damaged number must
// cost its own room and no other's, so it is looked at before anything is reckoned with it. Instants and intervals are
// held to their bounds where they are decoded.

extension RoomRecord {
    /// Its numbers are such as clocks and counting give, and its parts agree with each other.
    public var isSound: Bool {
        let times: [Int64?] = [createdAtMs, startedAtMs, endedAtMs, talkingSinceMs]
        return times.allSatisfy(Soundness.isTime) && ordinal > 0 && Soundness.isCount(ordinal)
            && Soundness.isCount(nextRoomSeq)
            && lifecycle.kind == specification.kind && specification.hasSoundTimeouts && agrees
            && participants.allSatisfy(\.isSound) && prompts.allSatisfy { Soundness.isTime($0.startedAtMs) }
            && recording.map { Soundness.isTime($0.startedAtMs) && $0.specification.isSound } ?? true
            && ring?.isSound ?? true && history?.isSound ?? true
    }

    /// Who is in, whether it is over, and what is left of it.
    private var agrees: Bool {
        let handles = Set(participants.map(\.handle))
        let isOver = status == .ended
        return lifecycle.presentCount == participants.count && handles.count == participants.count
            && Set(participants.map(\.id)).count == participants.count
            && (worker != nil) == !participants.isEmpty && (outcome != nil) == isOver
            && (!isOver || participants.isEmpty && prompts.isEmpty)
            && prompts.allSatisfy { $0.listeners.allSatisfy(handles.contains) }
            && (ring != nil) == (specification.ring != nil)
    }
}

extension ShelvedRoom {
    /// As `RoomRecord.isSound`.
    public var isSound: Bool { Soundness.isTime(endedAtMs) && ordinal > 0 && Soundness.isCount(ordinal) }
}

extension DrainRecord {
    /// As `RoomRecord.isSound`.
    public var isSound: Bool {
        Soundness.isTime(startedAtMs) && Soundness.isTime(deadlineMs) && Soundness.isTime(drainedAtMs)
            && Soundness.isCount(endedRooms)
    }
}

/// What numbers may be.
private enum Soundness {
    /// Milliseconds since 1970: up to the year 10,000.
    static func isTime(_ ms: Int64?) -> Bool { ms.map { (0...253_402_300_800_000).contains($0) } ?? true }
    static func isCount(_ count: UInt64) -> Bool { count < 1 << 56 }
    static func isCount(_ count: Int?) -> Bool { count.map { (0..<1 << 40).contains($0) } ?? true }
}

extension RoomSpecification {
    fileprivate var hasSoundTimeouts: Bool {
        let longest = ConductorConfiguration.longestTimeout
        let lengths: [Interval?] = [
            timeouts.prepared, timeouts.connecting, timeouts.empty, timeouts.maxDuration, timeouts.joinAfterClaim,
            timeouts.idle, timeouts.alone, ring?.window,
        ]
        return lengths.allSatisfy { $0.map { $0 > .zero && $0 <= longest } ?? true }
    }
}

extension ParticipantRecord {
    fileprivate var isSound: Bool {
        [createdAtMs, preparedAtMs, joinedAtMs].allSatisfy(Soundness.isTime) && Soundness.isCount(generation)
            && lifecycle.state != .left && (joinedAtMs != nil) == (lifecycle.state == .joined)
            && statistics.isSound && notes?.isSound ?? true
            && transport.sections.count <= Limits.sectionsPerTransport
            && slots.allSatisfy { Int($0.section) < transport.sections.count }
    }
}

extension LegNotes {
    fileprivate var isSound: Bool {
        let times = [firstAudioAtMs, firstVideoAtMs, interruptedMs, interruptedSinceMs]
        return times.allSatisfy(Soundness.isTime) && Soundness.isCount(interruptions)
    }
}

extension TransportStatistics {
    fileprivate var isSound: Bool { Self.longFields.allSatisfy { Soundness.isCount(self[keyPath: $0.0]) } }
}

extension Ring {
    fileprivate var isSound: Bool {
        Soundness.isTime(windowEndsAtMs)
            && callees.allSatisfy { callee in
                Soundness.isTime(callee.answeredAtMs) && callee.pushes.allSatisfy { Soundness.isTime($0.atMs) }
            }
    }
}

extension RoomHistory {
    fileprivate var isSound: Bool {
        legs.count <= Self.legsKept && Soundness.isCount(omittedLegs) && ringingAtMs.values.allSatisfy(Soundness.isTime)
            && Soundness.isTime(durationMs) && legs.allSatisfy(\.isSound)
    }
}

extension CallLeg {
    fileprivate var isSound: Bool {
        [createdAtMs, preparedAtMs, joinedAtMs, leftAtMs].allSatisfy(Soundness.isTime) && notes.isSound
            && statistics.isSound && series?.isSound ?? true
    }
}

extension LegSeries {
    fileprivate var isSound: Bool {
        Soundness.isTime(startMs) && (Self.firstStepMs...1 << 50).contains(stepMs)
            && rows.allSatisfy { row in
                Soundness.isTime(row.spanMs)
                    && (Row.counts + Row.peaks).allSatisfy { Soundness.isCount(row[keyPath: $0]) }
            }
    }
}

extension IdempotencyRecord {
    /// As `RoomRecord.isSound`.
    public var isSound: Bool {
        Soundness.isTime(createdAtMs) && (answer.map { (100...599).contains($0.status) } ?? true)
            && request?.hasSoundTimeouts ?? true
    }
}
