import Foundation

/// One value of a vector file, as tests read it: `row["hex"].bytes`, `row["seq"].integer`. A field that is absent reads as
/// `null`; asking for the wrong type records nothing and gives nil, so a test unwraps with `#require` or compares.
public enum VectorValue: Sendable, Hashable, Decodable {
    case null
    case bool(Bool)
    case integer(Int64)
    case unsigned(UInt64)
    case number(Double)
    case string(String)
    case array([VectorValue])
    case object([String: VectorValue])

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // Each attempt fails only because the value has another type; the last one reports.
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([VectorValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: VectorValue].self))
        }
    }

    public subscript(field: String) -> VectorValue {
        if case .object(let fields) = self { fields[field] ?? .null } else { .null }
    }
    public subscript(index: Int) -> VectorValue {
        if case .array(let values) = self, values.indices.contains(index) { values[index] } else { .null }
    }
    public var isNull: Bool { self == .null }
    public var string: String? { if case .string(let value) = self { value } else { nil } }
    /// True or false; also 0 and 1, which some files use for flag bits.
    public var bool: Bool? {
        switch self {
        case .bool(let value): value
        case .integer(0): false
        case .integer(1): true
        default: nil
        }
    }
    public var integer: Int? { if case .integer(let value) = self { Int(value) } else { nil } }
    /// A number of 0…2^64-1, also when it is written as text (values above 2^53).
    public var unsigned: UInt64? {
        switch self {
        case .integer(let value): UInt64(exactly: value)
        case .unsigned(let value): value
        case .string(let value): UInt64(value)
        default: nil
        }
    }
    public var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .unsigned(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
    public var array: [VectorValue]? { if case .array(let values) = self { values } else { nil } }
    /// The bytes of a hex string; nil when it is none.
    public var bytes: [UInt8]? { string.flatMap(hexBytes) }
}

/// One named row of a vector file. Its `description` is its name, so that a failing argument can be recognised.
public struct VectorRow: Sendable, CustomStringConvertible {
    public let name: String
    public let value: VectorValue

    public subscript(field: String) -> VectorValue { value[field] }
    /// The bytes of field `hex`; empty when there is none.
    public var bytes: [UInt8] { value["hex"].bytes ?? [] }
    public var description: String { name }
}

/// One file of `Tests/Fixtures`, found beside this source file. A missing or unreadable file ends the test run: it is part
/// of the project.
public struct VectorFile: Sendable {
    public let root: VectorValue

    /// `Tests/Fixtures/vectors/<name>.json`.
    public init(_ name: String) {
        self.init(fixture: "vectors/\(name).json")
    }
    /// A JSON file by its path below `Tests/Fixtures`.
    public init(fixture path: String) {
        do {
            root = try JSONDecoder().decode(VectorValue.self, from: Data(fixtureBytes(path)))
        } catch {
            fatalError("fixture \(path) is not JSON: \(error)")
        }
    }

    /// The rows of a list; without a `name` of their own they are named by the list and their index.
    public func rows(_ list: String = "cases") -> [VectorRow] {
        guard let values = root[list].array else { fatalError("no list \(list) in this vector file") }
        return values.enumerated().map { index, value in
            VectorRow(name: value["name"].string ?? "\(list)-\(index)", value: value)
        }
    }
}

/// The bytes of a file below `Tests/Fixtures`.
public func fixtureBytes(_ path: String) -> [UInt8] {
    let project = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let file = project.appendingPathComponent("Tests/Fixtures").appendingPathComponent(path)
    do {
        return [UInt8](try Data(contentsOf: file))
    } catch {
        fatalError("fixture \(path) cannot be read: \(error)")
    }
}

/// The bytes that pairs of hex digits stand for; nil for an odd count or any other character.
public func hexBytes(_ text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits.count / 2)
    for index in stride(from: 0, to: digits.count, by: 2) {
        guard let high = hexDigit(digits[index]), let low = hexDigit(digits[index + 1]) else { return nil }
        bytes.append(high << 4 | low)
    }
    return bytes
}

/// Lower-case hex of `bytes`, two digits each, as the vector files write it.
public func hexText(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}

private func hexDigit(_ character: UInt8) -> UInt8? {
    switch character {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
    default: nil
    }
}
