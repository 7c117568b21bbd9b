// The attributes that the reader knows, at session and at media level.

extension SDPReader {
    mutating func readAttribute(_ line: SDPLine) throws(SDPError) {
        let (nameBytes, rest) = line.value.halves(at: UInt8(ascii: ":"))
        let name = nameBytes.text
        let attribute = AttributeLine(name: name, value: rest ?? [], number: line.number)
        if try readTransport(attribute) { return }
        if media != nil {
            try readMedia(attribute)
        } else {
            try readSession(attribute)
        }
    }

    struct AttributeLine {
        var name: String
        var value: ArraySlice<UInt8>
        var number: Int

        func fault(_ detail: String, kind: SDPError.Kind = .value, limit: Int? = nil) -> SDPError {
            SDPError(kind: kind, line: number, attribute: "a=" + name, limit: limit, detail: detail)
        }
        /// Stores the only value of an attribute; a second, different one is an error.
        func set<Value: Equatable>(_ field: inout Value?, to value: Value) throws(SDPError) {
            if let old = field, old != value {
                throw fault("stands twice in one section with different values", kind: .duplicate)
            }
            field = value
        }
    }

    private mutating func readSession(_ line: AttributeLine) throws(SDPError) {
        switch line.name {
        case "group":
            let fields = line.value.fields
            guard let semantics = fields.first, fields.allSatisfy(\.isToken) else {
                throw line.fault("expected <semantics> <mid> …")
            }
            description.groups.append(
                SessionDescription.Group(semantics: semantics.text, mids: fields.dropFirst().map(\.text)))
        case "ice-lite": description.isICELite = true
        case "sendrecv", "sendonly", "recvonly", "inactive":
            description.direction = SessionDescription.Direction(rawValue: line.name)
        case "rtcp-xr":
            let mode = readReceiverRoundTrip(line.value)
            description.receiverRoundTrip = mode
        default: break
        }
    }

    /// Attributes that may stand at either level; true when the line was one of them.
    private mutating func readTransport(_ line: AttributeLine) throws(SDPError) -> Bool {
        var transport = media?.transport ?? description.transport
        switch line.name {
        case "ice-ufrag":
            guard line.value.isICEText(4...256) else {
                throw line.fault("expected 4 to 256 ice-chars", limit: 256)
            }
            try line.set(&transport.iceUfrag, to: line.value.text)
        case "ice-pwd":
            guard line.value.isICEText(22...256) else {
                throw line.fault("expected 22 to 256 ice-chars", limit: 256)
            }
            try line.set(&transport.icePassword, to: line.value.text)
        case "ice-options": transport.iceOptions = line.value.fields.map(\.text)
        case "extmap-allow-mixed": transport.allowsMixedExtensions = true
        case "setup":
            guard let role = SessionDescription.Setup(rawValue: line.value.trimmed.text.lowercased()) else {
                throw line.fault("expected active, passive, actpass or holdconn")
            }
            try line.set(&transport.setup, to: role)
        case "fingerprint": transport.fingerprints.append(try readFingerprint(line))
        default: return false
        }
        if media != nil { media?.transport = transport } else { description.transport = transport }
        return true
    }

    private func readFingerprint(_ line: AttributeLine) throws(SDPError) -> SessionDescription.Fingerprint {
        let fields = line.value.fields
        guard fields.count == 2, fields[0].isToken else { throw line.fault("expected <hash function> <hex>") }
        guard let bytes = fields[1].colonHex else {
            throw line.fault("expected pairs of hex digits between colons")
        }
        let algorithm = fields[0].text.lowercased()
        let byteCounts = [
            "sha-1": 20, "sha-224": 28, "sha-256": 32, "sha-384": 48, "sha-512": 64, "md5": 16, "md2": 16,
        ]
        if let expected = byteCounts[algorithm], expected != bytes.count {
            throw line.fault("\(bytes.count) bytes where \(algorithm) has \(expected)", limit: expected)
        }
        return SessionDescription.Fingerprint(algorithm: algorithm, bytes: bytes)
    }

    private mutating func readMedia(_ line: AttributeLine) throws(SDPError) {
        switch line.name {
        case "mid":
            let value = line.value.trimmed
            guard value.isToken else { throw line.fault("expected a token") }
            var mid = media?.mid
            try line.set(&mid, to: value.text)
            media?.mid = mid
        case "sendrecv", "sendonly", "recvonly", "inactive":
            if let direction = SessionDescription.Direction(rawValue: line.name) {
                try line.set(&pending.direction, to: direction)
            }
        case "rtpmap": try readMap(line)
        case "fmtp": try readParameters(line)
        case "rtcp-fb": try readFeedback(line)
        case "extmap": try readExtension(line)
        case "ssrc", "ssrc-group": try readSource(line)
        default: readFlag(line)
        }
    }

    /// Attributes whose value is recorded as it is, or that have none.
    private mutating func readFlag(_ line: AttributeLine) {
        switch line.name {
        case "rtcp-mux": media?.hasRTCPMux = true
        case "rtcp-mux-only": media?.hasRTCPMuxOnly = true
        case "rtcp-rsize": media?.hasReducedSizeRTCP = true
        case "rtcp-xr":
            let mode = readReceiverRoundTrip(line.value)
            media?.receiverRoundTrip = mode
        case "bundle-only": media?.isBundleOnly = true
        case "crypto": media?.hasCrypto = true
        case "end-of-candidates": media?.hasEndOfCandidates = true
        case "simulcast": media?.simulcast = line.value.trimmed.text
        case "msid":
            let parts = line.value.fields.map(\.text)
            let identifier = SessionDescription.StreamIdentifier(
                stream: parts.first.flatMap { $0 == "-" ? nil : $0 }, track: parts.count > 1 ? parts[1] : nil)
            media?.streams.append(identifier)
        case "rid":
            let parts = line.value.fields
            guard parts.count >= 2 else { return }
            media?.restrictions.append(
                SessionDescription.Restriction(id: parts[0].text, sends: parts[1].elementsEqual("send".utf8)))
        case "candidate":
            if let candidate = readCandidate(line.value) { media?.candidates.append(candidate) }
        default: break
        }
    }

    /// Nil where the extended reports named are others, or the mode is none that RFC 3611 knows.
    private func readReceiverRoundTrip(_ value: ArraySlice<UInt8>) -> String? {
        for format in value.fields {
            let (name, parameters) = format.halves(at: UInt8(ascii: "="))
            guard name.elementsEqual("rcvr-rtt".utf8), let parameters else { continue }
            // A size limit may follow; our answers are small.
            let mode = parameters.halves(at: UInt8(ascii: ":")).0.text
            return ["all", "sender"].contains(mode) ? mode : nil
        }
        return nil
    }

    /// Nil for what is neither a host candidate over UDP nor a passive one over TCP: nothing is decided by candidates,
    /// so they are never an error.
    private func readCandidate(_ value: ArraySlice<UInt8>) -> SessionDescription.Candidate? {
        let fields = value.fields
        guard fields.count >= 8, let component = fields[1].decimal(upTo: 256),
            let priority = fields[3].decimal(upTo: UInt64(UInt32.max)),
            let port = fields[5].decimal(upTo: 65_535), fields[0].isVisible, fields[4].isVisible,
            fields[6].elementsEqual("typ".utf8), fields[7].elementsEqual("host".utf8)
        else { return nil }
        let isStream = fields[2].text.lowercased() == "tcp"
        if isStream {
            guard fields.count >= 10, fields[8].elementsEqual("tcptype".utf8), fields[9].elementsEqual("passive".utf8)
            else { return nil }
        } else {
            guard fields[2].text.lowercased() == "udp" else { return nil }
        }
        return SessionDescription.Candidate(
            foundation: fields[0].text, component: UInt16(component), priority: UInt32(priority),
            address: fields[4].text, port: UInt16(port), isStream: isStream)
    }
}
