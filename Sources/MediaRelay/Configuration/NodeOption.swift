/// What one option of a node is: its form, unit, default, range, meaning, and whether a running node takes it up. Everything that
/// speaks of options is made of this: parsing, `--help`, `config print`, shell completion, docs/configuration.md.
package struct NodeOption: Sendable {
    package enum Form: Sendable, Equatable {
        /// true or false; as a flag alone it is true.
        case on
        case number(ClosedRange<Int64>)
        case word([String])
        /// An IP address and a port: `127.0.0.1:8080`, `[::1]:8080`.
        case endpoint
        case endpointOrOff
        case address
        /// A port's number, or one of the words.
        case port([String])
        case file
        case folder
        case text
    }

    package enum Reload: Sendable, Equatable {
        case atStart
        case live
        /// Live, with what to know of it.
        case liveNote(String)
    }

    package enum Group: String, CaseIterable, Sendable {
        case addresses = "Addresses and ports"
        case node = "The node"
        case recordings = "Recordings"
        case access = "Keys, limits and TLS"
        case webhooks = "Webhooks"
        case retention = "How long events are kept"
        case log = "Log"
    }

    package var name: OptionName
    package var group: Group
    package var form: Form
    /// How a value is written in `--help`: `ADDR:PORT`. Empty for `on`.
    package var value: String
    package var unit: String?
    /// What holds without it, in words or as the value itself.
    package var standard: String
    package var isRepeatable = false
    /// Its value is, or may contain, what nobody else may know.
    package var isSecret = false
    package var reload = Reload.atStart
    /// One sentence without its full stop.
    package var summary: String

    package var isLive: Bool { reload != .atStart }

    /// What values there are, in words.
    package var range: String {
        switch form {
        case .on: "true, false"
        case .number(let range): "\(range.lowerBound)…\(range.upperBound)"
        case .word(let words): words.joined(separator: ", ")
        case .endpoint: "an IP address and a port; IPv6 in brackets"
        case .endpointOrOff: "an IP address and a port, or off"
        case .address: "an IP address"
        case .port(let words): "1…65535, \(words.joined(separator: ", "))"
        case .file: "a file"
        case .folder: "a folder"
        case .text: value
        }
    }

    package static func of(_ name: OptionName) -> NodeOption {
        guard let option = all.first(where: { $0.name == name }) else {
            preconditionFailure("\(name) has no row in the table")
        }
        return option
    }
}
