import Foundation

extension RelayClient {
    /// A JSON value (RFC 8259): what events and rooms carry beyond their fixed fields.
    public enum JSON: Hashable, Sendable, Codable {
        case null
        case bool(Bool)
        case integer(Int64)
        case number(Double)
        case string(String)
        case array([JSON])
        case object([String: JSON])

        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let value = try? container.decode(Bool.self) {
                self = .bool(value)
            } else if let value = try? container.decode(Int64.self) {
                self = .integer(value)
            } else if let value = try? container.decode(Double.self) {
                self = .number(value)
            } else if let value = try? container.decode(String.self) {
                self = .string(value)
            } else if let value = try? container.decode([JSON].self) {
                self = .array(value)
            } else {
                self = .object(try container.decode([String: JSON].self))
            }
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .null: try container.encodeNil()
            case .bool(let value): try container.encode(value)
            case .integer(let value): try container.encode(value)
            case .number(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            case .array(let values): try container.encode(values)
            case .object(let fields): try container.encode(fields)
            }
        }

        /// An object's field; nil for other values and absent fields.
        public subscript(name: String) -> JSON? {
            if case .object(let fields) = self { fields[name] } else { nil }
        }
        public var string: String? { if case .string(let value) = self { value } else { nil } }
        public var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
        public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
        public var array: [JSON]? { if case .array(let values) = self { values } else { nil } }
    }
}
