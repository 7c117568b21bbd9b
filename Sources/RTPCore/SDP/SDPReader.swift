// Reads the bytes of a session description, line by line, into `SessionDescription`. Total: any bytes give a
// description or an `SDPError`. Lines end in CRLF or LF. Unknown attributes and line types are passed over; a
// known attribute with a malformed value is an error, because a peer that means something we misread is worse
// than one that is told so.

extension SessionDescription {
    /// Reads a whole description, as of `application/sdp`.
    public init(parsing bytes: [UInt8]) throws(SDPError) {
        var reader = SDPReader(bytes)
        self = try reader.read(isFragment: false)
    }
}

struct SDPReader {
    private let bytes: [UInt8]
    private var position = 0
    private var lineNumber = 0
    private var sectionLineCount = 0
    var description = SessionDescription()
    /// The section that is being read, with what can only be joined at its end.
    var media: SessionDescription.Media?
    var pending = PendingCodecs()

    /// Lines by payload type, in any order within a section.
    struct PendingCodecs {
        var maps: [UInt8: SessionDescription.Codec] = [:]
        var parameters: [UInt8: String] = [:]
        var feedback: [(payloadType: UInt8?, text: String)] = []
        var direction: SessionDescription.Direction?
    }

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// - Parameter isFragment: true for `application/trickle-ice-sdpfrag` (RFC 8840 §9), which has attributes
    ///   and m-lines only.
    mutating func read(isFragment: Bool) throws(SDPError) -> SessionDescription {
        guard bytes.count <= SDPLimits.byteCount else {
            throw SDPError(
                kind: .limit, line: 1, attribute: "", limit: SDPLimits.byteCount,
                detail: "the description has \(bytes.count) bytes")
        }
        if !isFragment { try readVersion() }
        while let line = try nextLine() {
            switch line.type {
            case UInt8(ascii: "m"): try beginMedia(line)
            case UInt8(ascii: "a"): try readAttribute(line)
            case UInt8(ascii: "o") where media == nil: try readOrigin(line)
            default: break
            }
        }
        endMedia()
        return description
    }

    private mutating func readVersion() throws(SDPError) {
        guard let line = try nextLine(), line.type == UInt8(ascii: "v"), line.value.elementsEqual("0".utf8)
        else {
            throw SDPError(
                kind: .form, line: 1, attribute: "", limit: nil,
                detail: "a session description begins with v=0")
        }
    }

    /// The next line that is not empty; nil at the end. Empty lines may only stand at the end.
    private mutating func nextLine() throws(SDPError) -> SDPLine? {
        var sawEmpty = false
        while position < bytes.count {
            let content = try nextContent()
            if content.isEmpty {
                sawEmpty = true
                continue
            }
            let type = content[content.startIndex]
            let isForm =
                content.count >= 2 && (0x61...0x7A).contains(type)
                && content[content.startIndex + 1] == UInt8(ascii: "=")
            guard isForm, !sawEmpty else {
                throw SDPError(
                    kind: .form, line: lineNumber, attribute: "", limit: nil,
                    detail: sawEmpty
                        ? "an empty line stands before this one" : "not of the form <letter>=<value>")
            }
            if type != UInt8(ascii: "m") { try countLine() }
            return SDPLine(number: lineNumber, type: type, value: content.dropFirst(2))
        }
        return nil
    }

    private mutating func nextContent() throws(SDPError) -> ArraySlice<UInt8> {
        let end = bytes[position...].firstIndex(of: 0x0A) ?? bytes.count
        var content = bytes[position..<end]
        position = min(end + 1, bytes.count)
        lineNumber += 1
        if content.last == 0x0D { content.removeLast() }
        guard content.count <= SDPLimits.lineByteCount else {
            throw SDPError(
                kind: .limit, line: lineNumber, attribute: "", limit: SDPLimits.lineByteCount,
                detail: "the line has \(content.count) bytes")
        }
        guard !content.contains(where: { $0 == 0 || $0 == 0x0D }) else {
            throw SDPError(
                kind: .form, line: lineNumber, attribute: "", limit: nil,
                detail: "a NUL or a lone CR inside the line")
        }
        return content
    }

    private mutating func countLine() throws(SDPError) {
        sectionLineCount += 1
        guard sectionLineCount <= SDPLimits.sectionLineCount else {
            throw SDPError(
                kind: .limit, line: lineNumber, attribute: "", limit: SDPLimits.sectionLineCount,
                detail: "too many lines in one section")
        }
    }

    private mutating func readOrigin(_ line: SDPLine) throws(SDPError) {
        let fields = line.value.fields
        guard fields.count == 6, let id = fields[1].decimal(upTo: .max),
            let version = fields[2].decimal(upTo: .max)
        else {
            throw SDPError(
                kind: .value, line: line.number, attribute: "o=", limit: nil,
                detail: "expected <name> <id> <version> <net> <type> <address>")
        }
        description.sessionID = id
        description.sessionVersion = version
    }

    private mutating func beginMedia(_ line: SDPLine) throws(SDPError) {
        endMedia()
        guard description.media.count < SDPLimits.mediaCount else {
            throw SDPError(
                kind: .limit, line: line.number, attribute: "m=", limit: SDPLimits.mediaCount,
                detail: "too many m-lines")
        }
        let fields = line.value.fields
        // A port may be followed by a count of ports (`9/2`); WebRTC never has one.
        guard fields.count >= 4, fields[0].isToken, let port = fields[1].decimal(upTo: 65_535),
            fields[2].isVisible, fields[3...].allSatisfy(\.isVisible)
        else {
            throw SDPError(
                kind: .value, line: line.number, attribute: "m=", limit: nil,
                detail: "expected <media> <port> <protocol> <format> …")
        }
        var section = SessionDescription.Media(
            kind: fields[0].text, port: UInt16(port), transportProtocol: fields[2].text,
            formats: fields[3...].map(\.text))
        section.line = line.number
        let isRTP = section.transportProtocol.utf8.split(separator: UInt8(ascii: "/")).contains {
            $0.elementsEqual("RTP".utf8)
        }
        if isRTP, !fields[3...].allSatisfy({ $0.decimal(upTo: 127) != nil }) {
            throw SDPError(
                kind: .value, line: line.number, attribute: "m=", limit: 127,
                detail: "a payload type is no number")
        }
        media = section
        sectionLineCount = 1
    }

    /// Joins what belongs to one payload type and hands the section over.
    private mutating func endMedia() {
        guard var section = media else { return }
        for format in section.formats {
            guard let payloadType = UInt8(format), var codec = pending.maps.removeValue(forKey: payloadType)
            else {
                continue
            }
            codec.formatParameters = pending.parameters[payloadType]
            for entry in pending.feedback
            where (entry.payloadType == nil || entry.payloadType == payloadType)
                && !codec.feedback.contains(entry.text)
            {
                codec.feedback.append(entry.text)
            }
            section.codecs.append(codec)
        }
        section.receiverRoundTrip = section.receiverRoundTrip ?? description.receiverRoundTrip
        section.direction = pending.direction ?? description.direction ?? .sendrecv
        description.media.append(section)
        media = nil
        pending = PendingCodecs()
    }
}
