/// What an API caller did wrong or what stands in its way, told as an RFC 9457 problem document.
public struct Problem: Error, Hashable, Sendable {
    /// HTTP status, 400…599.
    public var status: Int
    /// The machine's word for it: CALLS.md's error codes, or a word of the same form for malformed input.
    public var code: String
    /// For people: names the field, the value and the limit.
    public var detail: String
    /// Further members of the document (`outcome`, `roomId`, …).
    public var members: [JSONValue.Field]
    /// Seconds for `Retry-After`, with 429 and 503.
    public var retryAfterSeconds: Int?

    public init(
        status: Int, code: String, detail: String, members: [JSONValue.Field] = [], retryAfterSeconds: Int? = nil
    ) {
        self.status = status
        self.code = code
        self.detail = detail
        self.members = members
        self.retryAfterSeconds = retryAfterSeconds
    }
}
