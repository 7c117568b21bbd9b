/// Why a TCP connection was closed or not taken, as operators see it in the metrics.
package enum StreamEnd: Int, CaseIterable, Sendable {
    // Not taken.
    case tooMany, tooManyUnproven, tooManyFromSource, noDescriptor
    // Closed by us: no check passed in time, its session has gone, what it sent is no ICE or no framing.
    case unproven, withoutSession, notICE, emptyFrame, oversizeFrame, slowFrame
    // Closed from outside.
    case byPeer, broken

    init(_ refusal: StreamAdmission.Refusal) {
        switch refusal {
        case .tooMany: self = .tooMany
        case .tooManyUnproven: self = .tooManyUnproven
        case .tooManyFromSource: self = .tooManyFromSource
        }
    }

    /// The metric's label.
    package var name: String {
        switch self {
        case .tooMany: "too-many"
        case .tooManyUnproven: "too-many-unproven"
        case .tooManyFromSource: "too-many-from-source"
        case .noDescriptor: "no-descriptor"
        case .unproven: "unproven"
        case .withoutSession: "without-session"
        case .notICE: "not-ice"
        case .emptyFrame: "empty-frame"
        case .oversizeFrame: "oversize-frame"
        case .slowFrame: "slow-frame"
        case .byPeer: "by-peer"
        case .broken: "broken"
        }
    }
}

/// What passed over TCP, and why connections ended. One thread.
package final class MediaStreamCounters {
    package internal(set) var accepted: UInt64 = 0
    package internal(set) var framesReceived: UInt64 = 0
    package internal(set) var bytesReceived: UInt64 = 0
    package internal(set) var framesSent: UInt64 = 0
    package internal(set) var bytesSent: UInt64 = 0
    private let ends: UnsafeMutablePointer<UInt64>

    package init() {
        ends = .allocate(capacity: StreamEnd.allCases.count)
        ends.initialize(repeating: 0, count: StreamEnd.allCases.count)
    }

    deinit { ends.deallocate() }

    package subscript(end: StreamEnd) -> UInt64 { ends[end.rawValue] }

    func count(_ end: StreamEnd) { ends[end.rawValue] &+= 1 }
}
