extension RelayClient {
    /// What went wrong. Holds no secret and no token.
    public enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// The relay answered a problem document (RFC 9457).
        case problem(Problem)
        /// No answer came: not reached, cut off or too late. The request may have been carried out.
        case unreachable(cause: String)
        /// An answer that is not what the contract says.
        case malformed(detail: String)
        /// The log has a gap: `expected` is the number that is missing.
        case gap(expected: UInt64, got: UInt64)
        /// The key that was given is a public one.
        case cannotSign
        case cancelled

        public var description: String {
            switch self {
            case .problem(let problem): "\(problem.status) \(problem.code): \(problem.detail)"
            case .unreachable(let cause): "no answer: \(cause)"
            case .malformed(let detail): "an answer that is not understood: \(detail)"
            case .gap(let expected, let got): "event \(expected) is missing before \(got)"
            case .cannotSign: "a public key does not sign"
            case .cancelled: "cancelled"
            }
        }
    }

    public struct Problem: Hashable, Sendable {
        public var status: Int
        /// The machine's word for it: `call-not-found` and so on.
        public var code: String
        public var detail: String
        /// How an ended room ended.
        public var outcome: String?
        /// The other room, with `glare` and `session-already-active`.
        public var roomId: String?
        /// When to try again, where the relay says so.
        public var retryAfterSeconds: Int?
    }
}
