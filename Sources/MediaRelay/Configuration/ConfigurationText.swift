import RelayCore

/// What is written of the options: `serve --help`, `config print`, and the reference in docs/configuration.md. Made of the table.
package enum ConfigurationText {
    // MARK: Help

    /// The options' part of `serve --help`.
    package static var help: String {
        var text = ""
        for group in NodeOption.Group.allCases {
            text += "\(group.rawValue):\n"
            for option in NodeOption.all where option.group == group { text += lines(of: option) }
            text += "\n"
        }
        return text + """
            Each option can also be given by the environment (--max-token-lifetime is MEDIA_RELAY_MAX_TOKEN_LIFETIME, several values
            separated by spaces) or in the file that --config names. Flags win over the environment, the environment over the file.

            """
    }

    private static func lines(of option: NodeOption) -> String {
        let head = "  " + option.name.flag + (option.value.isEmpty ? "" : " " + option.value)
        var words = option.summary
        if option.form != .on { words += " (default: \(option.standard))" }
        if let unit = option.unit { words += ", in \(unit), \(option.range)" }
        if option.isRepeatable { words += "; repeatable" }
        let indent = 28
        let wrapped = wrap(words, width: 120 - indent)
        var text = head
        if head.count + 2 > indent {
            text += "\n" + String(repeating: " ", count: indent)
        } else {
            text += String(repeating: " ", count: indent - head.count)
        }
        return text + wrapped.joined(separator: "\n" + String(repeating: " ", count: indent)) + "\n"
    }

    /// Lines of at most `width` characters, broken at spaces.
    package static func wrap(_ text: String, width: Int) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] += " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }

    // MARK: Print

    /// The effective configuration as a file of options, with where each value comes from.
    package static func print(_ options: ServeOptions) -> String {
        var text = "// The effective configuration of media-relay \(Version.text). Secrets are redacted.\n{\n"
        for group in NodeOption.Group.allCases {
            text += "  // \(group.rawValue)\n\n"
            for option in NodeOption.all where option.group == group && option.name != .config {
                text += "  // \(option.summary). From: \(source(of: option.name, in: options))\n"
                text += "  \(line(of: option, options))\n"
            }
            text += "\n"
        }
        text.removeLast()
        return text + "}\n"
    }

    private static func source(of name: OptionName, in options: ServeOptions) -> String {
        guard let given = options.given[name] else { return "default" }
        switch given.source {
        case .standard: return "default"
        case .flag: return name.flag
        case .environment: return name.variable
        case .file: return "\(given.source)"
        }
    }

    private static func line(of option: NodeOption, _ options: ServeOptions) -> String {
        let values = options.shownValues(of: option.name).map { value in
            switch option.form {
            case .on, .number: value
            case .port: UInt16(value) == nil ? quoted(value) : value
            default: quoted(value)
            }
        }
        let name = option.name.rawValue.contains("-") ? "\"\(option.name.rawValue)\"" : option.name.rawValue
        guard !values.isEmpty else { return "// \(name): \(option.standard)" }
        return option.isRepeatable ? "\(name): [\(values.joined(separator: ", "))]," : "\(name): \(values[0]),"
    }

    private static func quoted(_ text: String) -> String {
        String(decoding: JSONText.of(.string(text)), as: UTF8.self)
    }

    // MARK: Template

    /// A file of options in which each stands as a comment: to begin with.
    package static var template: String {
        var text = """
            // Configuration of media-relay (JSON5). Each option stands here as a comment; take the slashes off what you change.
            // `media-relay config check --config FILE` says whether it is good, SIGHUP (`systemctl reload media-relay`) takes it up.
            {

            """
        for group in NodeOption.Group.allCases {
            text += "  // \(group.rawValue)\n\n"
            for option in NodeOption.all where option.group == group && option.name != .config {
                let unit = option.unit.map { ", in \($0), \(option.range)" } ?? ""
                for line in wrap("\(option.summary)\(unit). Default: \(option.standard)", width: 115) {
                    text += "  // \(line)\n"
                }
                let name = option.name.rawValue.contains("-") ? "\"\(option.name.rawValue)\"" : option.name.rawValue
                text += "  // \(name): \(option.isRepeatable ? "[…]" : "…"),\n\n"
            }
        }
        text.removeLast()
        return text + "}\n"
    }

    // MARK: Reference

    /// docs/configuration.md.
    package static var reference: String {
        var text = """
            # Configuration

            <!-- Made by `media-relay config reference` from NodeOption+Table.swift: change that file. -->

            Every option has one name, in three places: `--name` as a flag, `MEDIA_RELAY_NAME` in the environment (`_` for `-`; several values separated by
            spaces), `name` in the file that `--config FILE` (or `MEDIA_RELAY_CONFIG`) names. Flags win over the environment, the environment over the file, option
            by option. What is unknown, of the wrong type or out of range is refused with its name, value and limit, and nothing starts.

            ```json5
            // /etc/media-relay/media-relay.json5
            {
              http: "127.0.0.1:8080",
              announce: ["203.0.113.7"],
              key: ["main:@/etc/media-relay/key"],      // more than one while keys are rotated
              "max-token-lifetime": 3600,               // names with a dash stand in quotes
            }
            ```

            - `media-relay config check` says whether a node would take it (exit code 0, or 2 with the reason), files of keys, secrets and certificates included.
            - `media-relay config print` shows what holds, as such a file, with where each value comes from; secrets are redacted.
            - SIGHUP reads the file, and the files that it names, again. A node takes up what is *live* below and says in its log what it took up and what needs a
              restart. When anything is refused, all stays as it was.


            """
        for group in NodeOption.Group.allCases {
            text += "## \(group.rawValue)\n\n| option | meaning | unit | default | range | live |\n"
            text += "|---|---|---|---|---|---|\n"
            for option in NodeOption.all where option.group == group { text += row(of: option) }
            text += "\n"
        }
        text.removeLast()
        return text
    }

    private static func row(of option: NodeOption) -> String {
        let live =
            switch option.reload {
            case .atStart: "no"
            case .live: "yes"
            case .liveNote(let note): "yes: \(note)"
            }
        var meaning = option.summary
        if option.isRepeatable { meaning += "; repeatable" }
        let cells = [
            "`\(option.name.rawValue)`", meaning, option.unit ?? "", option.standard, option.range, live,
        ]
        // A bar would end the cell.
        return "| " + cells.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ") + " |\n"
    }
}
