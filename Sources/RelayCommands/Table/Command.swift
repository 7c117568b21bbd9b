/// What one command is: its words, operands, options and meaning. Parsing, help, shell completion and the manual page are made of
/// it; what it does is in `Commands`.
struct Command: Sendable {
    struct Operand: Sendable {
        /// Upper case, as help shows it.
        var name: String
        var summary: String
        /// The only values there are, where they are few.
        var words: [String] = []
    }

    struct Option: Sendable {
        enum Value: Sendable, Equatable {
            case none
            case text
            case file
            case folder
            case words([String])
        }
        /// Without the dashes.
        var name: String
        /// How its value is shown; empty without one.
        var shown = ""
        var value = Value.none
        var summary: String
    }

    /// `["rooms", "show"]`.
    var path: [String]
    var summary: String
    var operands: [Operand] = []
    var options: [Option] = []
    /// More than the summary, as paragraphs.
    var details: [String] = []
    var examples: [String] = []
    /// Takes the options of a node as they are (`serve`): they are parsed by it.
    var takesNodeOptions = false
    /// For the program itself: in no list.
    var isHidden = false

    var name: String { path.joined(separator: " ") }

    func option(_ name: String) -> Option? { options.first { $0.name == name } }
}

/// How a command ends: what scripts can rely on.
enum ExitCode: Int32, CaseIterable, Sendable {
    case done = 0
    case failed = 1
    case usage = 2
    case unreachable = 3
    case notFound = 4

    var meaning: String {
        switch self {
        case .done: "done; doctor: nothing failed"
        case .failed: "refused by the relay, or failed; doctor: something failed"
        case .usage: "wrong arguments or configuration: nothing was done"
        case .unreachable: "the relay does not answer"
        case .notFound: "no such room, call or user"
        }
    }
}
