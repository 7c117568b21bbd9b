// Writes the heads of answers. Owns the framing fields (Content-Length, Transfer-Encoding, Connection, Date)
// and refuses a head that would not be one: CR, LF or NUL in a value would let whoever chose it write the
// rest of the answer.

/// Why an answer cannot be sent as it was given.
package enum ResponseFault: Error, Hashable, Sendable {
    /// A field name is not a token.
    case fieldName
    /// A field value holds CR, LF, NUL or another control character.
    case fieldValue
    /// The field is the server's own.
    case reservedField
}

/// Head bytes of answers.
package enum ResponseWriter {
    package enum Framing: Hashable, Sendable {
        /// A body of so many bytes follows (or would, to a GET).
        case length(Int)
        /// No body and no length: 204 and 304.
        case none
        case chunked
        /// The body ends with the connection: streams to HTTP/1.0.
        case untilClose
    }

    private static let reserved = ["content-length", "transfer-encoding", "connection", "date"]

    /// The head of an answer with its empty line.
    ///
    /// `connection` is the value of the Connection field, nil for none.
    package static func head(
        status: Int, headers: [HTTPResponse.Field], framing: Framing, date: String, connection: String?
    ) throws(ResponseFault) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(256)
        head.append(contentsOf: "HTTP/1.1 \(status) \(reason(status))\r\nDate: \(date)\r\n".utf8)
        for field in headers { try append(field, to: &head) }
        switch framing {
        case .length(let count): head.append(contentsOf: "Content-Length: \(count)\r\n".utf8)
        case .chunked: head.append(contentsOf: "Transfer-Encoding: chunked\r\n".utf8)
        case .none, .untilClose: break
        }
        if let connection { head.append(contentsOf: "Connection: \(connection)\r\n".utf8) }
        head.append(contentsOf: [ASCII.carriageReturn, ASCII.lineFeed])
        return head
    }

    private static func append(_ field: HTTPResponse.Field, to head: inout [UInt8]) throws(ResponseFault) {
        let name = field.name.utf8
        guard !name.isEmpty, name.allSatisfy(ASCII.isToken) else { throw .fieldName }
        guard !field.value.utf8.contains(where: ASCII.isControl) else { throw .fieldValue }
        guard !reserved.contains(where: { ASCII.equalIgnoringCase(name, $0.utf8) }) else {
            throw .reservedField
        }
        head.append(contentsOf: name)
        head.append(contentsOf: [ASCII.colon, ASCII.space])
        head.append(contentsOf: field.value.utf8)
        head.append(contentsOf: [ASCII.carriageReturn, ASCII.lineFeed])
    }

    /// One chunk of a chunked body (RFC 9112 section 7.1). `bytes` is not empty: an empty chunk would end the
    /// body.
    package static func chunk(_ bytes: [UInt8]) -> [UInt8] {
        precondition(!bytes.isEmpty, "an empty chunk ends the body")
        var chunk: [UInt8] = []
        chunk.reserveCapacity(bytes.count + 12)
        chunk.append(contentsOf: String(bytes.count, radix: 16).utf8)
        chunk.append(contentsOf: [ASCII.carriageReturn, ASCII.lineFeed])
        chunk.append(contentsOf: bytes)
        chunk.append(contentsOf: [ASCII.carriageReturn, ASCII.lineFeed])
        return chunk
    }

    package static let lastChunk: [UInt8] = Array("0\r\n\r\n".utf8)
    package static let goOn: [UInt8] = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    /// The phrase of RFC 9110 section 15 for a status.
    package static func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 422: "Unprocessable Content"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        case 505: "HTTP Version Not Supported"
        default: "Status"
        }
    }
}
