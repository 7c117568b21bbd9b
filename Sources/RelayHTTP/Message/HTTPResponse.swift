/// One answer, whole.
public struct HTTPResponse: Sendable {
    /// A field of an answer. Content-Length, Transfer-Encoding, Connection and Date are the server's and
    /// refused here.
    public struct Field: Hashable, Sendable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// 200…599.
    public var status: Int
    public var headers: [Field]
    /// Sent with its Content-Length; not sent in answer to HEAD, nor with 204 and 304.
    public var body: [UInt8]

    /// - Precondition: `status` is in 200…599.
    public init(status: Int, headers: [Field] = [], body: [UInt8] = []) {
        precondition((200...599).contains(status), "status \(status) is not in 200…599")
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// A body with its media type.
    public init(status: Int, contentType: String, headers: [Field] = [], body: [UInt8]) {
        self.init(status: status, headers: [Field("Content-Type", contentType)] + headers, body: body)
    }

    /// A problem document of RFC 9457 for what the server refuses by itself.
    init(_ refusal: RequestRefusal) {
        var headers = [Field("Content-Type", "application/problem+json")]
        switch refusal.status {
        case 405: headers.append(Field("Allow", ""))
        case 503: headers.append(Field("Retry-After", "1"))
        default: break
        }
        let text =
            #"{"type":"about:blank","title":"\#(ResponseWriter.reason(refusal.status))","#
            + #""status":\#(refusal.status),"#
            + #""detail":"\#(Self.escaped(refusal.detail))","code":"\#(Self.escaped(refusal.code))"}"#
        self.init(status: refusal.status, headers: headers, body: Array(text.utf8))
    }

    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { escaped.unicodeScalars.append("\\") }
            escaped.unicodeScalars.append(scalar.value < 0x20 ? " " : scalar)
        }
        return escaped
    }
}
