import Foundation

extension RelayClient {
    /// One event of the relay's log; what each type means is in docs/events.md.
    public struct Event: Hashable, Sendable, Codable {
        /// The consumer's cursor: follow after it. Gapless over the node.
        public var seq: UInt64
        /// Gapless over the room, from 1; 0 without one.
        public var roomSeq: UInt64
        /// Unique for ever: drop what comes twice by it.
        public var id: String
        /// `call.ended` and so on; in the legacy dialect the callback's name.
        public var type: String
        /// RFC 3339 with milliseconds.
        public var time: String
        public var roomId: String?
        public var uid: String?
        public var device: String?
        public var participantId: String?
        public var reason: String?
        public var data: JSON

        /// The log no longer had what was asked for: look at the rooms anew, then go on from here.
        public var isTruncation: Bool { type == "events.truncated" }

        /// From the JSON of a webhook's body. Throws `Failure.malformed`.
        public init(json: [UInt8]) throws(Failure) {
            self = try RelayClient.decoded(Event.self, json)
        }
    }

    /// In whose words events are told.
    public enum Dialect: String, Sendable {
        case current
        /// The earlier ringing dialect: calls only.
        case legacy
    }

    /// Verifies a webhook's request (Standard Webhooks) and gives its event.
    /// - Parameters:
    ///   - header: a request header's value by its name; names are to be compared without regard to case.
    ///   - body: as received, byte for byte.
    ///   - secrets: one, or several while they are rotated.
    ///   - nowSeconds: since 1970; requests more than five minutes away from it are refused.
    /// - Throws: `WebhookSignature.Refusal`, to be answered 401; `Failure.malformed`, 400.
    public static func webhook(
        header: (String) -> String?, body: [UInt8], secrets: [WebhookSecret],
        nowSeconds: Int64 = Int64(Date().timeIntervalSince1970)
    ) throws -> Event {
        try WebhookSignature.verify(
            id: header("webhook-id"), timestamp: header("webhook-timestamp"), signature: header("webhook-signature"),
            body: body, secrets: secrets, nowSeconds: nowSeconds)
        return try Event(json: body)
    }
}
