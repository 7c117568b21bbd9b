import RTPCore

// What goes between an outbox, the journal and the network: plain values.

/// One request to make.
package struct WebhookPost: Sendable, Equatable {
    /// Names it while it is in flight.
    package var token: UInt64
    /// `webhook-id`: the event's id, the same at every try.
    package var id: String
    package var body: [UInt8]
}

/// What became of a request.
package enum WebhookResult: Sendable, Equatable {
    /// 2xx.
    case delivered
    /// 410: the endpoint wants nothing any more.
    case gone
    /// Any other status, redirects included.
    case refused(status: Int, retryAfter: Interval?)
    case timedOut
    /// The connection broke before the answer was there. `cause` names no address.
    case broken(cause: String)
    /// No connection came about.
    case unreachable(cause: String)
}

/// Where an endpoint stands, as it is stored: everything up to `cursor` is delivered, but for the streams in arrears.
/// A stream is a room's id, or "" for events without room.
package struct WebhookProgress: Sendable, Equatable {
    package struct Arrear: Sendable, Equatable {
        package var stream: String
        /// The first event of the stream that is not delivered; nil: it has caught up.
        package var seq: UInt64?
        package init(stream: String, seq: UInt64?) {
            self.stream = stream
            self.seq = seq
        }
    }
    package var endpoint: String
    package var cursor: UInt64
    /// Changes since the last one that was stored; all of them in what the journal gives back.
    package var arrears: [Arrear]
    package init(endpoint: String, cursor: UInt64, arrears: [Arrear]) {
        self.endpoint = endpoint
        self.cursor = cursor
        self.arrears = arrears
    }
}

/// An endpoint's numbers for `/metrics`.
package struct WebhookStatus: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        /// Takes what comes.
        case up
        /// Failed for several rooms or could not be reached; tried again with growing waits.
        case down
        /// Answered 410: not tried again before the next start.
        case gone
    }
    package var name: String
    package var state = State.up
    package var delivered: UInt64 = 0
    package var failed: UInt64 = 0
    /// Times that the log no longer had what was owed.
    package var truncated: UInt64 = 0
    package var cursor: UInt64 = 0
    package var arrears = 0
    package var inFlight = 0
    package init(name: String) { self.name = name }
}
