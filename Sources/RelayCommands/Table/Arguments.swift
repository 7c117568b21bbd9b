/// Arguments that a command does not take. Names a value only where no secret can stand.
struct UsageError: Error, Equatable, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// A command's arguments, checked against its row in the table.
struct Arguments: Equatable {
    private(set) var values: [String: String] = [:]
    private(set) var operands: [String] = []

    /// Which command the first words name, and what is left. Nil in place of the command: help is wanted, of what `path` begins.
    enum Choice {
        case command(Command, [String])
        case help(path: [String])
    }

    /// The longest path that the arguments begin with. `rooms` alone is `rooms list`.
    static func choose(_ arguments: [String]) throws(UsageError) -> Choice {
        guard let first = arguments.first else { return .help(path: []) }
        if ["--help", "-h", "help"].contains(first) { return .help(path: Array(arguments.dropFirst())) }
        if first == "--version" { return .command(try command(["version"]), []) }
        let group = Command.all.filter { $0.path.first == first }
        guard !group.isEmpty else { throw UsageError("\(first): no such command") }
        var (path, rest) = ([first], Array(arguments.dropFirst()))
        if group[0].path.count > 1 {
            if let second = rest.first, !second.hasPrefix("-") {
                path.append(second)
                rest.removeFirst()
            } else if let second = rest.first, ["--help", "-h"].contains(second) {
                return .help(path: path)
            } else if group[0].path[1] == "list" {
                path.append("list")
            } else {
                throw UsageError(
                    "\(first): one of \(group.filter { !$0.isHidden }.map { $0.path[1] }.joined(separator: ", ")) is needed"
                )
            }
        }
        if rest.contains(where: { $0 == "--help" || $0 == "-h" }) { return .help(path: path) }
        return .command(try command(path), rest)
    }

    private static func command(_ path: [String]) throws(UsageError) -> Command {
        guard let command = Command.named(path) else {
            throw UsageError("\(path.joined(separator: " ")): no such command")
        }
        return command
    }

    init(_ arguments: [String], for command: Command) throws(UsageError) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                operands += rest
                break
            }
            guard argument.hasPrefix("-"), argument != "-" else {
                operands.append(argument)
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts[0].hasPrefix("--"), let option = command.option(String(parts[0].dropFirst(2))) else {
                throw UsageError("\(parts[0]): unknown option")
            }
            guard values[option.name] == nil else { throw UsageError("\(parts[0]): given twice") }
            values[option.name] = try Self.value(of: option, parts, &rest)
        }
        let names = command.operands.map(\.name)
        guard operands.count >= names.count else { throw UsageError("\(names[operands.count]) is missing") }
        guard operands.count <= names.count else { throw UsageError("\(operands[names.count]): one word too many") }
        for (operand, value) in zip(command.operands, operands) where !operand.words.isEmpty {
            guard operand.words.contains(value) else {
                throw UsageError("\(value): not one of \(operand.words.joined(separator: ", "))")
            }
        }
    }

    private static func value(
        of option: Command.Option, _ parts: [String], _ rest: inout ArraySlice<String>
    ) throws(UsageError) -> String {
        if option.value == .none {
            guard parts.count == 1 else { throw UsageError("--\(option.name): takes no value") }
            return "true"
        }
        let given = parts.count == 2 ? parts[1] : rest.popFirst()
        guard let given, !given.isEmpty else { throw UsageError("--\(option.name): its value is missing") }
        if case .words(let words) = option.value, !words.contains(given) {
            throw UsageError("--\(option.name) \(given): not one of \(words.joined(separator: ", "))")
        }
        return given
    }

    subscript(name: String) -> String? { values[name] }

    func has(_ name: String) -> Bool { values[name] != nil }

    func integer(_ name: String, _ range: ClosedRange<UInt64>) throws(UsageError) -> UInt64? {
        guard let text = values[name] else { return nil }
        guard let number = UInt64(text), range.contains(number) else {
            throw UsageError("--\(name) \(text): not a number in \(range.lowerBound)…\(range.upperBound)")
        }
        return number
    }
}
