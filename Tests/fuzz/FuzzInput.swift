import RelayTesting

/// Choices out of an input's bytes, for targets whose input is a sequence of acts. Behind the last byte everything is 0.
struct FuzzInput {
    private let bytes: [UInt8]
    private var at = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isEmpty: Bool { at >= bytes.count }

    mutating func byte() -> UInt8 {
        guard at < bytes.count else { return 0 }
        defer { at += 1 }
        return bytes[at]
    }

    mutating func flag() -> Bool { byte() & 1 != 0 }
    /// 0 ..< `count`, at most 256.
    mutating func choice(_ count: Int) -> Int { Int(byte()) % count }
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[choice(elements.count)] }

    mutating func integer<Integer: FixedWidthInteger>(_ type: Integer.Type = Integer.self) -> Integer {
        var value: Integer = 0
        for _ in 0..<Integer.bitWidth / 8 { value = (value &<< 7) &<< 1 | Integer(truncatingIfNeeded: byte()) }
        return value
    }

    /// As many bytes as the next one says; behind 255, as many as the next two say.
    mutating func piece() -> [UInt8] {
        var count = Int(byte())
        if count == 255 { count = Int(integer(UInt16.self)) }
        let end = min(bytes.count, at + count)
        defer { at = end }
        return Array(bytes[min(at, end)..<end])
    }

    mutating func rest() -> [UInt8] {
        defer { at = bytes.count }
        return Array(bytes[min(at, bytes.count)...])
    }
}

/// The bytes of the vectors in the lists of a file.
func vectors(_ file: String, _ lists: String..., field: String = "hex") -> [[UInt8]] {
    let file = VectorFile(file)
    return lists.flatMap { file.rows($0) }.compactMap { $0[field].bytes }
}

/// Inputs that other projects' fuzzers kept, of one kind.
func keptInputs(_ kind: String) -> [[UInt8]] {
    VectorFile("fuzz_seeds").rows().filter { $0["kind"].string == kind }.map(\.bytes)
}

/// Every input behind each of the first bytes.
func inputs(_ rests: [[UInt8]], behind firsts: UInt8...) -> [[UInt8]] {
    firsts.flatMap { (first: UInt8) -> [[UInt8]] in rests.map { (rest: [UInt8]) -> [UInt8] in [first] + rest } }
}

/// The offers and answers of real clients.
let realDescriptions: [[UInt8]] = [
    "aiortc-p2p-answer", "aiortc-p2p-offer", "chromium-datachannel", "chromium-h264", "chromium-p2p-answer",
    "chromium-p2p-offer", "chromium-plain", "chromium-recvonly-nogum", "chromium-simulcast", "chromium-svc-L3T3-vp9",
    "firefox-p2p-answer", "firefox-p2p-offer", "firefox-simulcast", "gst-p2p-answer", "gst-p2p-offer", "gst-sfu-offer",
    "libdatachannel-sfu-offer", "wrtc-p2p-answer", "wrtc-p2p-offer", "wrtc-simulcast",
].map { fixtureBytes("sdp/\($0).sdp") }

/// As many bytes as `write` appends to an output of `capacity`.
func written(_ capacity: Int, _ write: (inout OutputSpan<UInt8>) -> Void) -> [UInt8] {
    [UInt8](capacity: capacity) { write(&$0) }
}
