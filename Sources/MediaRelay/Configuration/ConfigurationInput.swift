import Foundation

/// Where an option's value comes from.
package enum ConfigurationSource: Hashable, Sendable, CustomStringConvertible {
    case standard
    case flag
    case environment
    case file(path: String, line: Int)

    package var description: String {
        switch self {
        case .standard: "default"
        case .flag: "flag"
        case .environment: "environment"
        case .file(let path, let line): "\(path) line \(line)"
        }
    }
}

/// An option's values as they were given, in the source that wins for it.
package struct GivenOption: Hashable, Sendable {
    package var name: OptionName
    package var values: [String]
    package var source: ConfigurationSource

    /// How an error names it.
    package var label: String {
        switch source {
        case .standard, .flag: name.flag
        case .environment: name.variable
        case .file: "\(source): \(name.rawValue)"
        }
    }
}

/// Brings flags, environment and file together: flags win over the environment, the environment over the file, option by option.
/// Knows no meaning of any value.
package struct ConfigurationInput: Sendable {
    package private(set) var options: [OptionName: GivenOption] = [:]
    package private(set) var file: String?

    /// The subcommand's options that stand beside the node's: not taken here.
    package init(
        arguments: [String], environment: [String: String],
        readFile: (String) -> [UInt8]? = ConfigurationInput.contents
    ) throws(ServeOptions.Refusal) {
        let flags = try Self.flags(arguments)
        let variables = Self.variables(environment)
        file = flags[.config]?.values.last ?? variables[.config]?.values.last
        if let file {
            guard let bytes = readFile(file) else {
                throw ServeOptions.Refusal("--config \(file): cannot be read, or has more than \(byteLimit) bytes")
            }
            for option in try ConfigurationFile.options(bytes, path: file) { options[option.name] = option }
        }
        options.merge(variables) { $1 }
        options.merge(flags) { $1 }
        for option in options.values where option.values.count > 1 && !NodeOption.of(option.name).isRepeatable {
            throw ServeOptions.Refusal("\(option.label): given \(option.values.count) times, possible once")
        }
    }

    private static func flags(_ arguments: [String]) throws(ServeOptions.Refusal) -> [OptionName: GivenOption] {
        var flags: [OptionName: GivenOption] = [:]
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard argument.hasPrefix("--"), let name = OptionName(rawValue: String(parts[0].dropFirst(2))) else {
                // Not the whole of it: what stands behind = may be a secret.
                throw ServeOptions.Refusal("\(parts[0]): unknown option (see media-relay serve --help)")
            }
            let value: String
            if parts.count == 2 {
                value = String(parts[1])
            } else if NodeOption.of(name).form == .on {
                value = "true"
            } else {
                guard let next = rest.popFirst() else {
                    throw ServeOptions.Refusal("\(name.flag): its value is missing")
                }
                value = next
            }
            flags[name, default: GivenOption(name: name, values: [], source: .flag)].values.append(value)
        }
        return flags
    }

    /// Several values are separated by spaces. An empty variable is none.
    private static func variables(_ environment: [String: String]) -> [OptionName: GivenOption] {
        var variables: [OptionName: GivenOption] = [:]
        for name in OptionName.allCases {
            guard let text = environment[name.variable], !text.isEmpty else { continue }
            let values = NodeOption.of(name).isRepeatable ? text.split(separator: " ").map(String.init) : [text]
            variables[name] = GivenOption(name: name, values: values, source: .environment)
        }
        return variables
    }

    package static func contents(of path: String) -> [UInt8]? {
        guard let data = FileManager.default.contents(atPath: path), data.count <= byteLimit else { return nil }
        return Array(data)
    }
}

private let byteLimit = 256 * 1_024
