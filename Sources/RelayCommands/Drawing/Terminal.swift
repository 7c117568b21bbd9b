import Glibc

/// Where output goes: whether it is read by a human at a terminal, in colour, in which characters, how wide. A value, so that what is
/// drawn can be tested.
struct Terminal: Sendable {
    enum Colour: Int, Sendable {
        case red = 31
        case green = 32
        case yellow = 33
        case blue = 34
        case cyan = 36
        case grey = 90
        case bold = 1
    }

    var isColoured = false
    /// Lines and dots that are not ASCII may be used.
    var hasUnicode = true
    /// Characters of a line.
    var width = 100

    /// Of standard output. Colour: only at a terminal, without NO_COLOR (https://no-color.org), and not at a dumb one.
    static func standard(_ environment: [String: String]) -> Terminal {
        var terminal = Terminal()
        let isTerminal = isatty(1) == 1
        terminal.isColoured =
            isTerminal && environment["NO_COLOR", default: ""].isEmpty && environment["TERM"] != "dumb"
        let locale = environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"] ?? ""
        // What is not read at a terminal is UTF-8, as all text of ours.
        terminal.hasUnicode = !isTerminal || locale.lowercased().contains("utf")
        var size = winsize()
        if isTerminal, ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 {
            terminal.width = max(60, Int(size.ws_col))
        }
        return terminal
    }

    func paint(_ text: String, _ colour: Colour?) -> String {
        guard isColoured, let colour, !text.isEmpty else { return text }
        return "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    /// What a peer chose must not steer the terminal: control characters become a question mark.
    static func printable(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned:
                result.append("?")
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}
