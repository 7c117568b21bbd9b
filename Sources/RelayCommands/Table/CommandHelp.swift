import MediaRelay

/// `--help`: of the program, of a group of commands, of one command. Made of the table.
enum CommandHelp {
    private static let width = 100

    /// For whatever commands begin with `path`. Nil: none does.
    static func text(of path: [String]) -> String? {
        if let command = Command.named(path) { return text(of: command) }
        let group = Command.all.filter { $0.path.starts(with: path) && !$0.isHidden }
        guard !group.isEmpty else { return nil }
        let words = (["media-relay"] + path).joined(separator: " ")
        var text = path.isEmpty ? "A media relay for WebRTC calls that owns the state of every call.\n\n" : ""
        text += "usage: \(words) \(path.isEmpty ? "COMMAND" : "VERB") [options]\n\n"
        text += rows(group.map { ($0.name, $0.summary) })
        text += "\nmedia-relay COMMAND --help says more. "
        return text + "Exit codes:\n\n" + rows(exitCodes)
    }

    static func text(of command: Command) -> String {
        var text = "usage: media-relay \(usage(of: command))\n\n\(sentence(command.summary))\n"
        for detail in command.details {
            text += "\n" + ConfigurationText.wrap(detail, width: width).joined(separator: "\n") + "\n"
        }
        if !command.operands.isEmpty { text += "\n" + rows(command.operands.map { ($0.name, $0.summary) }) }
        if !command.options.isEmpty {
            text +=
                "\n"
                + rows(command.options.map { ("--\($0.name)" + ($0.shown.isEmpty ? "" : " \($0.shown)"), $0.summary) })
        }
        if command.takesNodeOptions { text += "\n" + ConfigurationText.help }
        if !command.examples.isEmpty {
            text += "\nexamples:\n" + command.examples.map { "  \($0)\n" }.joined()
        }
        return text
    }

    /// `kick ROOM UID [options]`.
    static func usage(of command: Command) -> String {
        let words = command.path + command.operands.map(\.name)
        let hasOptions = !command.options.isEmpty || command.takesNodeOptions
        return (words + (hasOptions ? ["[options]"] : [])).joined(separator: " ")
    }

    static var exitCodes: [(String, String)] { ExitCode.allCases.map { ("\($0.rawValue)", $0.meaning) } }

    static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() + "." }

    /// Two columns; the second is wrapped.
    private static func rows(_ rows: [(String, String)]) -> String {
        let indent = min(30, (rows.map(\.0.count).max() ?? 0) + 4)
        let pad = String(repeating: " ", count: indent)
        return rows.map { head, words in
            let lines = ConfigurationText.wrap(words, width: width - indent)
            let first = "  " + head
            let gap = first.count + 2 > indent ? "\n" + pad : String(repeating: " ", count: indent - first.count)
            return first + gap + lines.joined(separator: "\n" + pad) + "\n"
        }.joined()
    }
}
