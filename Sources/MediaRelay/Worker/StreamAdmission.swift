import RTPCore

/// Which TCP connections are taken: pure counting. Anybody can open connections, so those over which no authenticated
/// check has come yet are few, in all and from one source (an IPv4 address or an IPv6 /64); how many there may be
/// altogether is bounded as well.
package struct StreamAdmission {
    package enum Refusal: Hashable, Sendable { case tooMany, tooManyUnproven, tooManyFromSource }

    /// Connections at once, proven or not.
    package let limit: Int
    package let unprovenLimit: Int
    package let sourceLimit: Int
    package private(set) var count = 0
    package private(set) var unprovenCount = 0
    private var sources: [Source: Int] = [:]

    private struct Source: Hashable {
        var high: UInt64
        var low: UInt64
        init(_ peer: PeerAddress) {
            high = peer.high
            low = peer.isIPv4 ? peer.low : 0
        }
    }

    package init(limit: Int, unprovenLimit: Int, sourceLimit: Int) {
        self.limit = limit
        self.unprovenLimit = unprovenLimit
        self.sourceLimit = sourceLimit
    }

    /// Counts one more connection from `peer`, unproven yet; or says why it is not taken.
    package mutating func admit(_ peer: PeerAddress) -> Refusal? {
        guard count < limit else { return .tooMany }
        guard unprovenCount < unprovenLimit else { return .tooManyUnproven }
        let source = Source(peer)
        let ofSource = sources[source] ?? 0
        guard ofSource < sourceLimit else { return .tooManyFromSource }
        count += 1
        unprovenCount += 1
        sources[source] = ofSource + 1
        return nil
    }

    /// A check has come over the connection.
    package mutating func prove(_ peer: PeerAddress) {
        let source = Source(peer)
        guard let ofSource = sources[source] else { preconditionFailure("proven, but never admitted") }
        sources[source] = ofSource > 1 ? ofSource - 1 : nil
        unprovenCount -= 1
    }

    /// The session of a proven connection is gone. False where there are too many unproven ones already: it has to go.
    package mutating func demote(_ peer: PeerAddress) -> Bool {
        let source = Source(peer)
        let ofSource = sources[source] ?? 0
        guard unprovenCount < unprovenLimit, ofSource < sourceLimit else { return false }
        unprovenCount += 1
        sources[source] = ofSource + 1
        return true
    }

    /// The connection is closed.
    package mutating func leave(_ peer: PeerAddress, wasProven: Bool) {
        if !wasProven { prove(peer) }
        count -= 1
    }
}
