import RTPCore

/// Every DTLS association of one worker: takes the engine's requests and gives its results, in order. Owns the table by
/// participant, the budgets and the counters; the association itself is `DTLSConnection`'s. Refuses to know addresses: the
/// engine passes on only what came from an address with an authenticated check, and sends to the path that it selected.
///
/// Sans-IO and confined to one thread. After every call drain `takeResults()`; `now` never goes back.
public final class Handshaker {
    public private(set) var counters = HandshakeCounters()
    /// When `advance` is to be called next.
    public private(set) var deadline = Instant.distantFuture
    /// SSL objects of unfinished handshakes.
    public private(set) var inFlightCount = 0
    /// Participants known, in any state.
    public var count: Int { associations.count }

    private struct Association {
        let connection: DTLSConnection
        var datagramCount = 0
        var byteCount = 0
        /// Of the current window, once established.
        var windowEnd = Instant(nanoseconds: 0)
    }

    private let identity: DTLSIdentity
    private let limits: HandshakeLimits
    private var associations: [ParticipantHandle: Association] = [:]
    /// Those whose connection has a deadline.
    private var timed: Set<ParticipantHandle> = []
    private var results: [HandshakeResult] = []

    public init(identity: DTLSIdentity, limits: HandshakeLimits = HandshakeLimits()) {
        self.identity = identity
        self.limits = limits
    }

    public func receive(_ request: HandshakeRequest, now: Instant) {
        switch request {
        case .begin(let handle, let fingerprints):
            guard associations[handle] == nil else { return }
            counters.begun += 1
            let connection = DTLSConnection(identity: identity, fingerprints: fingerprints, limits: limits)
            associations[handle] = Association(connection: connection)
        case .records(let handle, let datagram):
            receive(datagram, for: handle, now: now)
        case .close(let handle):
            guard let association = associations[handle] else { return }
            inFlightCount -= association.connection.unfinishedObjectCount
            let output = association.connection.close()
            report(output, for: handle)
            forget(handle)
        }
    }

    /// Repeats flights and gives up handshakes whose time has come.
    public func advance(to now: Instant) {
        guard deadline <= now else { return }
        // Sorted, so that one run is like the next: the order of a set is not.
        let due = timed.filter { associations[$0].map { $0.connection.deadline <= now } ?? true }
            .sorted { $0.value < $1.value }
        for handle in due {
            guard let association = associations[handle] else { continue }
            drive(association.connection, handle) { $0.advance(to: now) }
        }
        deadline = timed.reduce(.distantFuture) { earliest, handle in
            min(earliest, associations[handle]?.connection.deadline ?? .distantFuture)
        }
    }

    /// Results since the last call, in order.
    public func takeResults() -> [HandshakeResult] {
        guard !results.isEmpty else { return [] }
        defer { results = [] }
        return results
    }

    // MARK: - One datagram

    private func receive(_ datagram: [UInt8], for handle: ParticipantHandle, now: Instant) {
        guard var association = associations[handle] else {
            counters.droppedUnknownParticipant += 1
            return
        }
        let connection = association.connection
        guard charge(&association, datagram.count, now: now) else {
            counters.droppedOverBudget += 1
            return
        }
        let input = DTLSInput(datagram, isEstablished: connection.state == .established)
        if input.hasRefused { counters.refusedRecords += 1 }
        if connection.state == .idle, !input.hasClientHello {
            if !input.accepted.isEmpty { counters.droppedWithoutHello += 1 }
            // Nothing was begun, so nothing is charged: junk ahead of the first hello must not use up its budget.
            if connection.attemptCount > 0 { associations[handle] = association }
            return
        }
        let mayCreate = inFlightCount < limits.inFlight
        if !mayCreate, connection.needsObject(for: input) {
            counters.droppedAtCapacity += 1
            return
        }
        associations[handle] = association
        drive(connection, handle) { $0.receive(input, mayCreate: mayCreate, now: now) }
    }

    /// False when the association has had its share.
    private func charge(_ association: inout Association, _ byteCount: Int, now: Instant) -> Bool {
        if association.connection.state == .established {
            if association.windowEnd <= now {
                association.windowEnd = now + limits.duration
                association.datagramCount = 0
            }
            association.datagramCount += 1
            return association.datagramCount <= limits.establishedDatagrams
        }
        association.datagramCount += 1
        association.byteCount += byteCount
        return association.datagramCount <= limits.datagrams && association.byteCount <= limits.bytes
    }

    /// Lets the connection act and books what changed.
    private func drive(
        _ connection: DTLSConnection, _ handle: ParticipantHandle, _ act: (DTLSConnection) -> DTLSConnection.Output
    ) {
        let before = connection.state
        let objectsBefore = connection.unfinishedObjectCount
        let attemptsBefore = connection.attemptCount
        let repeatsBefore = connection.repeatedFlightCount
        let output = act(connection)
        let after = connection.state
        inFlightCount += connection.unfinishedObjectCount - objectsBefore
        if attemptsBefore > 0 { counters.restarted += UInt64(connection.attemptCount - attemptsBefore) }
        counters.repeatedFlights += UInt64(connection.repeatedFlightCount - repeatsBefore)
        report(output, for: handle)
        if after == .ended {
            if before == .established { counters.closedByPeer += 1 } else { counters.failed += 1 }
            forget(handle)
        } else if connection.deadline < .distantFuture {
            timed.insert(handle)
            deadline = min(deadline, connection.deadline)
        } else {
            timed.remove(handle)
        }
    }

    private func report(_ output: DTLSConnection.Output, for handle: ParticipantHandle) {
        for datagram in output.datagrams { results.append(.datagram(handle, datagram)) }
        if let keys = output.keys {
            counters.established += 1
            results.append(.established(handle, keys))
        }
        if let end = output.end { results.append(.ended(handle, end)) }
    }

    private func forget(_ handle: ParticipantHandle) {
        associations[handle] = nil
        timed.remove(handle)
    }
}
