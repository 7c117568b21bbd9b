import RelayHTTP

/// What a run of bytes means to the parser: requests, and what stands at the end.
struct Parsing {
    enum End: Equatable {
        case needsMore
        case refused(Int)
    }

    var requests: [ParsedRequest] = []
    var end = End.needsMore
    var refusal: RequestRefusal?
    var parser: RequestParser

    /// Parses bytes in pieces of a size.
    init(_ bytes: [UInt8], pieceByteCount: Int = .max, limits: RequestParser.Limits = .init()) {
        parser = RequestParser(limits: limits)
        var start = 0
        while start < bytes.count {
            let piece = Array(bytes[start..<(start + min(pieceByteCount, bytes.count - start))])
            start += piece.count
            var offset = 0
            while offset < piece.count {
                switch parser.receive(piece.span, from: &offset) {
                case .needsMore:
                    break
                case .complete(let request):
                    requests.append(request)
                case .refused(let refusal):
                    end = .refused(refusal.status)
                    self.refusal = refusal
                    return
                }
            }
        }
    }

    init(_ text: String, limits: RequestParser.Limits = .init()) {
        self.init(Array(text.utf8), limits: limits)
    }

    /// The refusal's status, nil when nothing was refused.
    var status: Int? { refusal?.status }
}

/// A GET with one more header line, or a POST with the given lines and bytes.
enum Text {
    static func get(_ lines: String...) -> String {
        "GET /a HTTP/1.1\r\nHost: relay.test\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    static func post(_ lines: String..., body: String = "") -> String {
        "POST /a HTTP/1.1\r\nHost: relay.test\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n" + body
    }

    static func chunked(_ body: String) -> String { post("Transfer-Encoding: chunked", body: body) }
}
