import Foundation

/// The file of options: one JSON5 object, so with comments, unquoted names and trailing commas. Foundation reads it; here names and
/// types are judged, and each name's line is found, so that an error can say where. Refuses what it does not know.
enum ConfigurationFile {
    static func options(_ bytes: [UInt8], path: String) throws(ServeOptions.Refusal) -> [GivenOption] {
        guard let values = try? values(bytes) else {
            throw ServeOptions.Refusal("\(path): not one JSON5 object\(place(in: bytes))")
        }
        var options: [GivenOption] = []
        for (text, line) in FileScan.names(bytes) {
            guard let name = OptionName(rawValue: text), name != .config else {
                throw ServeOptions.Refusal("\(path) line \(line): \(text): unknown option")
            }
            guard let value = values[text] else {
                throw ServeOptions.Refusal("\(path) line \(line): \(text): an escaped name")
            }
            var option = GivenOption(name: name, values: [], source: .file(path: path, line: line))
            guard options.allSatisfy({ $0.name != name }) else {
                throw ServeOptions.Refusal("\(option.label): stands twice")
            }
            option.values = try texts(of: value, option)
            if !option.values.isEmpty { options.append(option) }
        }
        guard options.count <= values.count, values.keys.allSatisfy({ OptionName(rawValue: $0) != nil }) else {
            throw ServeOptions.Refusal("\(path): a name that is not read: write names without escapes")
        }
        return options
    }

    private static func texts(of value: FileValue, _ given: GivenOption) throws(ServeOptions.Refusal) -> [String] {
        let option = NodeOption.of(given.name)
        switch value {
        case .null: return []
        case .list(let values) where option.isRepeatable:
            var texts: [String] = []
            for value in values { texts.append(try text(of: value, option, given)) }
            return texts
        default: return [try text(of: value, option, given)]
        }
    }

    private static func text(
        of value: FileValue, _ option: NodeOption, _ given: GivenOption
    ) throws(ServeOptions.Refusal) -> String {
        switch (value, option.form) {
        case (.bool(let flag), .on): return flag ? "true" : "false"
        case (.integer(let number), .number), (.integer(let number), .port): return String(number)
        case (.string(let text), .word), (.string(let text), .endpoint), (.string(let text), .endpointOrOff),
            (.string(let text), .address), (.string(let text), .port), (.string(let text), .file),
            (.string(let text), .folder), (.string(let text), .text):
            return text
        default:
            let shown = option.isSecret ? "" : " \(value.text)"
            throw ServeOptions.Refusal("\(given.label)\(shown): \(option.wanted)")
        }
    }

    /// Behind which line it stops being JSON5. Foundation does not say: the lines before the fault, closed, are an object.
    private static func place(in bytes: [UInt8]) -> String {
        let ends = bytes.indices.filter { bytes[$0] == UInt8(ascii: "\n") }
        guard ends.count <= lineLimit else { return "" }
        for (line, end) in ends.enumerated().reversed() {
            guard let closing = FileScan.closing(bytes[..<end]) else { continue }
            if (try? values(Array(bytes[..<end]) + closing)) != nil { return " (line \(line + 2))" }
        }
        return " (line 1)"
    }

    private static let lineLimit = 2_000

    private static func values(_ bytes: [UInt8]) throws -> [String: FileValue] {
        let decoder = JSONDecoder()
        decoder.allowsJSON5 = true
        return try decoder.decode([String: FileValue].self, from: Data(bytes))
    }
}

extension NodeOption {
    /// What the file's value has to be.
    fileprivate var wanted: String {
        let one =
            switch form {
            case .on: "true or false is needed"
            case .number(let range): "a number in \(range.lowerBound)…\(range.upperBound) is needed"
            case .port: "a number or a text is needed"
            default: "a text is needed"
            }
        return isRepeatable ? one + ", or a list of them" : one
    }
}

/// A value as JSON5 has it.
private enum FileValue: Decodable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case list([FileValue])
    case object

    init(from decoder: any Decoder) throws {
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
        } else if let values = try? container.decode([FileValue].self) {
            self = .list(values)
        } else {
            self = .object
        }
    }

    var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .integer(let value): "\(value)"
        case .number(let value): "\(value)"
        case .string(let value): "\"\(value)\""
        case .list: "[…]"
        case .object: "{…}"
        }
    }
}
