// Owns reading one HTTP/1.1 request from bytes as they come: request line, fields, framing, body (RFC 9112).
// Pure: no socket, no clock. Stricter than the RFC wherever two parsers could disagree about where a request
// ends: no bare LF, no folding, one Content-Length or one "chunked", nothing else. Every byte is looked at
// once, however small the pieces.

/// A state machine that takes the bytes of a connection and gives one request or one refusal.
///
/// After `complete` the parser is ready for the next request; after `refused` the connection is of no use any
/// more, because it is not known where a next request would begin. Not thread-safe; a plain value.
public struct RequestParser: Sendable {
    /// What the parser limits, in bytes and counts (API.md, Manners).
    public struct Limits: Sendable {
        /// Longest request target, bytes.
        public var targetByteCount = 8 * 1024
        /// All field lines and trailer lines of a request with their line ends, bytes.
        public var headerByteCount = 16 * 1024
        /// Fields of head and trailers together.
        public var fieldCount = 100
        /// Longest body after decoding, bytes.
        public var bodyByteCount = 64 * 1024

        public init() {}
    }

    /// What became of the bytes given.
    public enum Progress: Sendable {
        /// All bytes were taken and the request is not whole yet.
        case needsMore
        /// A request is whole; bytes after it were left.
        case complete(ParsedRequest)
        /// Answer with the refusal's status and close.
        case refused(RequestRefusal)
    }

    enum Stage: Sendable {
        case requestLine
        case fields
        case sizedBody(remaining: Int)
        case chunkedBody
        case trailers
    }

    let limits: Limits
    var stage = Stage.requestLine
    /// Lines without their ends, one after the other; fields point into it.
    var head: [UInt8] = []
    var lineStart = 0
    var sawCarriageReturn = false
    var skippedEmptyLine = false
    var sectionByteCount = 0
    var fieldCount = 0
    var firstSpace = -1
    var line = RequestLine()
    var fields: [HTTPHeaders.Field] = []
    var framing = Framing()
    var chunks = ChunkedDecoder()
    var body: [UInt8] = []
    private var continuePending = false

    public init(limits: Limits) {
        self.limits = limits
    }

    /// Whether a byte of a request has come that is not whole yet.
    public var isMidRequest: Bool {
        if case .requestLine = stage { return !head.isEmpty || sawCarriageReturn || skippedEmptyLine }
        return true
    }

    /// Whether the head is whole and the body is not.
    public var isReadingBody: Bool {
        switch stage {
        case .requestLine, .fields: false
        case .sizedBody, .chunkedBody, .trailers: true
        }
    }

    /// True once for a request that waits for "100 Continue" before it sends its body.
    public mutating func takeContinue() -> Bool {
        defer { continuePending = false }
        return continuePending
    }

    /// Takes bytes from `offset` on and moves `offset` behind what it took.
    ///
    /// - Complexity: linear in the bytes taken, whatever the size of the pieces they come in.
    public mutating func receive(_ bytes: Span<UInt8>, from offset: inout Int) -> Progress {
        do throws(RequestRefusal) {
            while offset < bytes.count {
                if try step(bytes, &offset) { return .complete(finish()) }
            }
            return .needsMore
        } catch {
            return .refused(error)
        }
    }

    /// Takes one line or one run of body bytes. True when the request is whole.
    private mutating func step(_ bytes: Span<UInt8>, _ offset: inout Int) throws(RequestRefusal) -> Bool {
        switch stage {
        case .requestLine, .fields, .trailers:
            guard try takeLine(bytes, &offset) else { return false }
            return try finishLine()
        case .sizedBody(let remaining):
            continuePending = false
            let count = min(remaining, bytes.count - offset)
            body.append(contentsOf: bytes, from: offset, count: count)
            offset += count
            stage = .sizedBody(remaining: remaining - count)
            return remaining == count
        case .chunkedBody:
            continuePending = false
            if try chunks.receive(bytes, from: &offset, into: &body, limit: limits.bodyByteCount) {
                stage = .trailers
                lineStart = head.count
            }
            return false
        }
    }

    /// Takes bytes up to the end of the line. True when the line is whole.
    private mutating func takeLine(_ bytes: Span<UInt8>, _ offset: inout Int) throws(RequestRefusal) -> Bool {
        while offset < bytes.count {
            let byte = bytes[offset]
            offset += 1
            if sawCarriageReturn {
                guard byte == ASCII.lineFeed else { throw .malformed("A CR is not followed by LF.") }
                sawCarriageReturn = false
                return true
            }
            if byte == ASCII.carriageReturn {
                sawCarriageReturn = true
                continue
            }
            guard byte != ASCII.lineFeed else { throw .malformed("A line ends in LF without CR.") }
            guard !ASCII.isControl(byte) else { throw .malformed("The head holds a control character.") }
            try admit(byte)
            head.append(byte)
        }
        return false
    }

    /// Holds the line that is being read to the limits, byte by byte, so that nothing grows beyond them.
    private mutating func admit(_ byte: UInt8) throws(RequestRefusal) {
        guard case .requestLine = stage else {
            sectionByteCount += 1
            guard sectionByteCount <= limits.headerByteCount - 2 else {
                throw .headersTooLarge(limits.headerByteCount)
            }
            return
        }
        if firstSpace < 0 {
            if byte == ASCII.space {
                firstSpace = head.count
                return
            }
            guard ASCII.isToken(byte), head.count < RequestLine.maximumMethodByteCount else {
                throw .malformed(
                    "The method is not a token of at most \(RequestLine.maximumMethodByteCount) bytes.")
            }
            return
        }
        // The target, a space and the version: eight bytes.
        guard head.count - firstSpace <= limits.targetByteCount + 9 else {
            throw .targetTooLong(limits.targetByteCount)
        }
    }

    /// Reads a whole line. True when the request is whole.
    private mutating func finishLine() throws(RequestRefusal) -> Bool {
        let range = lineStart..<head.count
        lineStart = head.count
        switch stage {
        case .requestLine:
            if range.isEmpty {
                // RFC 9112 section 2.2: one empty line before the request line is forgiven.
                guard !skippedEmptyLine else {
                    throw .malformed("More than one empty line before the request.")
                }
                skippedEmptyLine = true
                return false
            }
            line = try RequestLine(head.span.extracting(range), limits: limits)
            stage = .fields
            return false
        case .fields:
            guard range.isEmpty else {
                try takeField(range)
                return false
            }
            return try finishHead()
        case .trailers:
            guard range.isEmpty else {
                // Trailers are checked like fields and dropped: nobody may set a field after the framing was
                // decided.
                try takeField(range)
                fields.removeLast()
                return false
            }
            return true
        case .sizedBody, .chunkedBody:
            preconditionFailure("a body has no lines")
        }
    }

    private mutating func takeField(_ range: Range<Int>) throws(RequestRefusal) {
        sectionByteCount += 2
        fieldCount += 1
        guard sectionByteCount <= limits.headerByteCount - 2 else {
            throw .headersTooLarge(limits.headerByteCount)
        }
        guard fieldCount <= limits.fieldCount else { throw .tooManyFields(limits.fieldCount) }
        fields.append(try HTTPHeaders.Field(line: range, in: head.span))
    }

    /// Decides the framing. True when there is no body.
    private mutating func finishHead() throws(RequestRefusal) -> Bool {
        framing = try Framing(fields: fields, head: head.span, line: line, limits: limits)
        switch framing.body {
        case .none:
            return true
        case .sized(let count):
            stage = .sizedBody(remaining: count)
        case .chunked:
            stage = .chunkedBody
        }
        continuePending = framing.expectsContinue
        return false
    }

    /// Hands the request over and makes the parser ready for the next one.
    private mutating func finish() -> ParsedRequest {
        let request = ParsedRequest(
            line: line, framing: framing, headers: HTTPHeaders(bytes: head, fields: fields), body: body)
        self = RequestParser(limits: limits)
        return request
    }
}

/// A whole request as the parser gives it: what the bytes say, before the server adds an id and a peer.
public struct ParsedRequest: Sendable {
    /// As sent; methods are case-sensitive.
    public let method: String
    /// The target as sent: origin-form, or "*" with OPTIONS.
    public let target: String
    /// Fields in order.
    public let headers: HTTPHeaders
    /// Decoded body.
    public let body: [UInt8]
    /// Whether the client wants to go on with the connection.
    public let keepsAlive: Bool
    /// Whether it is HTTP/1.0: no chunked answers.
    public let isLegacy: Bool

    init(line: RequestLine, framing: Framing, headers: HTTPHeaders, body: [UInt8]) {
        method = line.method
        target = line.target
        self.headers = headers
        self.body = body
        keepsAlive = framing.keepsAlive
        isLegacy = line.isLegacy
    }
}

extension [UInt8] {
    /// Appends a part of a span.
    mutating func append(contentsOf bytes: Span<UInt8>, from offset: Int, count: Int) {
        bytes.extracting(offset..<(offset + count)).withUnsafeBufferPointer { append(contentsOf: $0) }
    }
}
