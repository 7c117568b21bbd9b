import MediaRelay

/// media-relay(1), made of the tables of commands and options (roff, man macros).
enum ManualPage {
    static var text: String {
        var text = ".TH MEDIA\\-RELAY 1 \"\" \"media\\-relay \(escaped(Version.text))\" \"User Commands\"\n"
        text += section("NAME") + "media\\-relay \\- media relay for WebRTC calls that owns the state of every call\n"
        text += section("SYNOPSIS")
        for command in commands { text += ".br\n\\fBmedia\\-relay\\fR \(escaped(CommandHelp.usage(of: command)))\n" }
        text += section("DESCRIPTION")
        text += paragraph(
            "A node takes audio and video of WebRTC clients and forwards them to the others of their rooms. It owns the state of "
                + "every call and tells it as ordered events. serve runs a node; the other commands look at a running one over "
                + "its API, act on it, or help to set it up.")
        text += section("COMMANDS") + commands.map(lines(of:)).joined()
        text += section("NODE OPTIONS")
        text += paragraph(
            "Of serve and config. Each may also be given by the environment, MEDIA_RELAY_ and the name in capitals with _ for -, "
                + "or by its name in the JSON5 file that --config names. Flags win over the environment, the environment over the "
                + "file.")
        for option in NodeOption.all { text += lines(of: option) }
        text += section("ENVIRONMENT")
        text += item("MEDIA_RELAY_URL, MEDIA_RELAY_KEY, MEDIA_RELAY_CA", "the node that commands talk to")
        text += item("MEDIA_RELAY_CONFIG", "the configuration file")
        text += item("NO_COLOR", "no colours, also on a terminal")
        text += section("SIGNALS")
        text += item("SIGTERM, SIGINT", "serve ends all calls, tells it, and exits")
        text += item("SIGHUP", "serve reads configuration file, keys, secrets, certificate and prompts again")
        text += section("EXIT STATUS")
        for code in CommandHelp.exitCodes { text += item(code.0, code.1) }
        return text
    }

    private static let commands = Command.all.filter { !$0.isHidden }

    private static func lines(of command: Command) -> String {
        var text = ".SS media\\-relay \(escaped(CommandHelp.usage(of: command)))\n"
        text += paragraph(CommandHelp.sentence(command.summary))
        for detail in command.details { text += paragraph(detail) }
        for operand in command.operands { text += item(operand.name, operand.summary) }
        for option in command.options {
            text += item("--\(option.name)" + (option.shown.isEmpty ? "" : " \(option.shown)"), option.summary)
        }
        for example in command.examples { text += ".PP\n.nf\n\(escaped(example))\n.fi\n" }
        return text
    }

    private static func lines(of option: NodeOption) -> String {
        var words = CommandHelp.sentence(option.summary)
        if let unit = option.unit { words += " In \(unit), \(option.range)." }
        if option.isRepeatable { words += " Repeatable." }
        words += " Default: \(option.standard)."
        switch option.reload {
        case .atStart: break
        case .live: words += " Live."
        case .liveNote(let note): words += " Live: \(note)."
        }
        return item(option.name.flag + (option.value.isEmpty ? "" : " \(option.value)"), words)
    }

    private static func section(_ name: String) -> String { ".SH \(name)\n" }

    private static func paragraph(_ text: String) -> String { ".PP\n\(escaped(text))\n" }

    private static func item(_ head: String, _ text: String) -> String {
        ".TP\n\\fB\(escaped(head))\\fR\n\(escaped(text))\n"
    }

    /// Backslashes, dashes and what would begin a request.
    static func escaped(_ text: String) -> String {
        let plain = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("…", with: "...")
        return plain.hasPrefix(".") || plain.hasPrefix("'") ? "\\&" + plain : plain
    }
}
