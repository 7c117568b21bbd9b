import RTPCore

/// Where clients that have no UDP reach a worker (RFC 6544).
package enum MediaTCP: Hashable, Sendable {
    /// Nowhere.
    case off
    /// The number of its UDP port.
    case mediaPort
    /// One of 2 × count ports from `first` on, chosen as UDP ports are.
    case ports(first: UInt16)

    package init?(_ text: String) {
        switch text {
        case "off", "0": self = .off
        case "same": self = .mediaPort
        default:
            guard let port = UInt16(text), port > 0 else { return nil }
            self = .ports(first: port)
        }
    }

    package var text: String {
        switch self {
        case .off: "off"
        case .mediaPort: "same"
        case .ports(let first): "\(first)"
        }
    }
}

/// What a worker process is started with: the arguments of `media-relay worker`. Refuses what it does not
/// know.
package struct WorkerOptions: Hashable, Sendable {
    /// Whether a wake-up that brings few packets is followed by a short wait for more (DESIGN.md, measurement
    /// 5).
    package enum Gather: String, Sendable { case auto, on, off }

    /// Which of the `count` workers this is, 0 ..< count; count more for the successors of those that retire.
    package var index: Int
    package var count: Int
    /// Control's Unix socket.
    package var linkPath: String
    /// IP addresses to bind, wildcards allowed; 1…32.
    package var mediaAddresses: [String]
    /// IP addresses that clients are told; empty: the bound ones.
    package var announcedAddresses: [String]
    /// First of the 2 × count ports that the workers use; 0: any free port.
    package var mediaPort: UInt16
    /// Where TCP connections are taken.
    package var tcp = MediaTCP.mediaPort
    package var gather: Gather
    /// CPU that the media loop is pinned to; nil: none.
    package var cpu: Int?
    /// Where it records, and how large all of that may be; nil: it records nothing.
    package var recordings: String?
    package var recordingsByteLimit: Int64 = 0
    /// Form of the worker's log lines.
    package var logFormat = Log.Format.text

    package init(
        index: Int, count: Int, linkPath: String, mediaAddresses: [String], announcedAddresses: [String],
        mediaPort: UInt16
    ) {
        self.index = index
        self.count = count
        self.linkPath = linkPath
        self.mediaAddresses = mediaAddresses
        self.announcedAddresses = announcedAddresses
        self.mediaPort = mediaPort
        gather = .auto
        cpu = nil
    }

    package struct Refusal: Error, Hashable, CustomStringConvertible {
        package var description: String
        init(_ description: String) { self.description = description }
    }

    /// The arguments behind `media-relay worker`, from which `init(arguments:)` makes the same options.
    package var arguments: [String] {
        var arguments = [
            "--index", "\(index)", "--count", "\(count)", "--link", linkPath, "--port", "\(mediaPort)",
            "--tcp", tcp.text, "--gather", gather.rawValue, "--log", logFormat.rawValue,
        ]
        for address in mediaAddresses { arguments += ["--media", address] }
        for address in announcedAddresses { arguments += ["--announce", address] }
        if let cpu { arguments += ["--cpu", "\(cpu)"] }
        if let recordings { arguments += ["--recordings", recordings, "--recordings-bytes", "\(recordingsByteLimit)"] }
        return arguments
    }

    package init(arguments: [String]) throws(Refusal) {
        self.init(
            index: 0, count: 1, linkPath: "", mediaAddresses: [], announcedAddresses: [], mediaPort: 0)
        var rest = arguments[...]
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw Refusal("\(name): its value is missing") }
            try set(name, value)
        }
        try validate()
    }

    private mutating func set(_ name: String, _ value: String) throws(Refusal) {
        switch name {
        case "--index": index = try Self.number(name, value, 0...1_023)
        case "--count": count = try Self.number(name, value, 1...1_024)
        case "--link": linkPath = value
        case "--port": mediaPort = UInt16(try Self.number(name, value, 0...65_535))
        case "--tcp":
            guard let tcp = MediaTCP(value) else { throw Refusal("--tcp \(value): not off, same or a port") }
            self.tcp = tcp
        case "--media": mediaAddresses.append(value)
        case "--announce": announcedAddresses.append(value)
        case "--recordings": recordings = value
        case "--recordings-bytes": recordingsByteLimit = Int64(try Self.number(name, value, 1...Int.max))
        case "--cpu": cpu = try Self.number(name, value, 0...1_023)
        case "--log":
            guard let format = Log.Format(rawValue: value) else { throw Refusal("--log \(value): not text or json") }
            logFormat = format
        case "--gather":
            guard let gather = Gather(rawValue: value) else {
                throw Refusal("--gather \(value): not auto, on or off")
            }
            self.gather = gather
        default: throw Refusal("\(name): unknown argument")
        }
    }

    private static func number(_ name: String, _ value: String, _ range: ClosedRange<Int>) throws(Refusal)
        -> Int
    {
        guard let number = Int(value), range.contains(number) else {
            throw Refusal("\(name) \(value): not a number in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }

    private func validate() throws(Refusal) {
        guard index < 2 * count else { throw Refusal("--index \(index): there are \(count) workers") }
        guard !linkPath.isEmpty else { throw Refusal("--link is missing") }
        guard (1...32).contains(mediaAddresses.count) else {
            throw Refusal("--media: \(mediaAddresses.count) addresses, 1…32 are possible")
        }
        guard announcedAddresses.count <= 32 else {
            throw Refusal("--announce: \(announcedAddresses.count) addresses, 32 are possible")
        }
        for text in mediaAddresses + announcedAddresses where PeerAddress(address: text, port: 0) == nil {
            throw Refusal("\(text): not an IP address")
        }
        guard Int(mediaPort) + 2 * count - 1 <= 65_535 else {
            throw Refusal("--port \(mediaPort): \(2 * count) ports from there on do not exist")
        }
        if case .ports(let first) = tcp, Int(first) + 2 * count - 1 > 65_535 {
            throw Refusal("--tcp \(first): \(2 * count) ports from there on do not exist")
        }
        let announced = announcedAddresses.isEmpty ? mediaAddresses : announcedAddresses
        for text in announced where PeerAddress(address: text, port: 0)?.isWildcard == true {
            throw Refusal("\(text): clients cannot reach it, name addresses by --announce")
        }
    }
}
