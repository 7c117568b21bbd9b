import Glibc
import RTPCore

// What may go wrong when a packet is sent. None of it ends anything: any network may lose packets.

/// Kinds of send error, as operators see them in the metrics.
package enum SendErrorKind: Int, CaseIterable, Sendable {
    /// The socket's buffer is full (EAGAIN).
    case bufferFull
    /// The device's queue is full or the kernel is out of memory (ENOBUFS, ENOMEM).
    case noMemory
    /// A firewall rule forbids it (EPERM, EACCES).
    case forbidden
    /// An ICMP answer to an earlier datagram (ECONNREFUSED).
    case refused
    /// No way to the receiver (ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL).
    case unreachable
    /// Longer than the path's MTU (EMSGSIZE).
    case tooLong
    /// No socket of the receiver's family.
    case noSocket
    /// The receiver's TCP connection takes no more for now.
    case streamFull
    /// The receiver's TCP connection is gone.
    case streamClosed
    /// Anything else.
    case other

    package init(_ code: Int32) {
        switch code {
        case EAGAIN: self = .bufferFull
        case ENOBUFS, ENOMEM: self = .noMemory
        case EPERM, EACCES: self = .forbidden
        case ECONNREFUSED: self = .refused
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL: self = .unreachable
        case EMSGSIZE: self = .tooLong
        default: self = .other
        }
    }

    /// The metric's label.
    package var name: String {
        switch self {
        case .bufferFull: "buffer-full"
        case .noMemory: "no-memory"
        case .forbidden: "forbidden"
        case .refused: "refused"
        case .unreachable: "unreachable"
        case .tooLong: "too-long"
        case .noSocket: "no-socket"
        case .streamFull: "stream-full"
        case .streamClosed: "stream-closed"
        case .other: "other"
        }
    }
}

/// Packets that were not sent, by kind. One thread.
package final class SendErrorCounters {
    private let counts: UnsafeMutablePointer<UInt64>

    package init() {
        counts = .allocate(capacity: SendErrorKind.allCases.count)
        counts.initialize(repeating: 0, count: SendErrorKind.allCases.count)
    }

    deinit { counts.deallocate() }

    package subscript(kind: SendErrorKind) -> UInt64 { counts[kind.rawValue] }
    package var total: UInt64 { SendErrorKind.allCases.reduce(0) { $0 + self[$1] } }

    package func count(_ kind: SendErrorKind, times: Int = 1) { counts[kind.rawValue] &+= UInt64(times) }
}

/// Which send errors were told to the log: each kind at most once a minute.
package struct LoggedErrors {
    private var told: [UInt64]
    private var times: [Instant?]

    package init() {
        told = [UInt64](repeating: 0, count: SendErrorKind.allCases.count)
        times = [Instant?](repeating: nil, count: SendErrorKind.allCases.count)
    }

    package mutating func lines(for errors: SendErrorCounters, now: Instant) -> [String] {
        var lines: [String] = []
        for kind in SendErrorKind.allCases {
            let count = errors[kind]
            let isRecent = times[kind.rawValue].map { now - $0 < .seconds(60) } ?? false
            guard count > told[kind.rawValue], !isRecent else { continue }
            lines.append("\(count - told[kind.rawValue]) packets were not sent: \(kind.name)")
            told[kind.rawValue] = count
            times[kind.rawValue] = now
        }
        return lines
    }
}
