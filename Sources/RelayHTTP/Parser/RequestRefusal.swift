/// Why the server refuses a request by itself, before any route sees it: status, code and a sentence for
/// people.
///
/// The sentence names limits and rules, never bytes of the peer, so it may be logged and sent as it stands.
public struct RequestRefusal: Error, Hashable, Sendable {
    /// HTTP status of the answer, 400…599. The connection closes after it.
    public var status: Int
    /// The machine's word for it.
    public var code: String
    /// For people: names the rule or the limit.
    public var detail: String

    public init(status: Int, code: String, detail: String) {
        self.status = status
        self.code = code
        self.detail = detail
    }

    /// 400: the bytes are not a request of RFC 9112, or one that two parsers could read differently.
    static func malformed(_ detail: String) -> RequestRefusal {
        RequestRefusal(status: 400, code: "malformed-request", detail: detail)
    }

    static func bodyTooLarge(_ limit: Int) -> RequestRefusal {
        RequestRefusal(status: 413, code: "body-too-large", detail: "The body exceeds \(limit) bytes.")
    }

    static func targetTooLong(_ limit: Int) -> RequestRefusal {
        RequestRefusal(status: 414, code: "target-too-long", detail: "The target exceeds \(limit) bytes.")
    }

    static func headersTooLarge(_ limit: Int) -> RequestRefusal {
        RequestRefusal(
            status: 431, code: "headers-too-large", detail: "The header section exceeds \(limit) bytes.")
    }

    static func tooManyFields(_ limit: Int) -> RequestRefusal {
        RequestRefusal(
            status: 431, code: "headers-too-large",
            detail: "The header section has more than \(limit) fields.")
    }

    static let tunnel = RequestRefusal(
        status: 405, code: "method-not-allowed", detail: "CONNECT: this server makes no tunnels.")
    static let version = RequestRefusal(
        status: 505, code: "version-not-supported", detail: "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    static let expectation = RequestRefusal(
        status: 417, code: "expectation-failed", detail: "The only expectation met is one 100-continue.")
    static let timeout = RequestRefusal(
        status: 408, code: "request-timeout", detail: "The request did not arrive whole in time.")

    static func overloaded(_ detail: String) -> RequestRefusal {
        RequestRefusal(status: 503, code: "overloaded", detail: detail)
    }
}
