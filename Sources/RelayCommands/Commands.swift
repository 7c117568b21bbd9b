import Dispatch
import Foundation
import MediaRelay
import RelayClient
import RelayLoadKit

/// Every subcommand of `media-relay`: finds it in the table, reads its arguments, runs it, says how it ended.
public enum Commands {
    /// - Parameter arguments: without the program's name.
    /// - Returns: the exit code (`ExitCode`; `worker` has its own).
    public static func run(_ arguments: [String], environment: [String: String]) -> Int32 {
        // These read their arguments themselves.
        switch arguments.first {
        case "serve" where !wantsHelp(arguments):
            return ServeProcess.run(arguments: Array(arguments.dropFirst()), environment: environment)
        case "worker": return WorkerProcess.run(arguments: Array(arguments.dropFirst()))
        case "trial": return Trial.run(arguments: Array(arguments.dropFirst()), environment: environment)
        default: break
        }
        return run(
            arguments, environment: environment, terminal: .standard(environment),
            output: { ServeProcess.print($0, to: 1) }, errors: { ServeProcess.print($0, to: 2) }
        ).rawValue
    }

    private static func wantsHelp(_ arguments: [String]) -> Bool {
        arguments.contains("--help") || arguments.contains("-h")
    }

    /// The same with its surroundings given.
    static func run(
        _ arguments: [String], environment: [String: String], terminal: Terminal,
        output: @escaping @Sendable (String) -> Void, errors: (String) -> Void
    ) -> ExitCode {
        do {
            switch try Arguments.choose(arguments) {
            case .help(let path):
                guard let text = CommandHelp.text(of: path) else {
                    throw UsageError("\(path.joined(separator: " ")): no such command")
                }
                guard !arguments.isEmpty else {
                    errors(text)
                    return .usage
                }
                output(text)
                return .done
            case .command(let command, let rest):
                if command.path[0] == "config" {
                    let code = ConfigCommand.run(
                        arguments: Array(command.path.dropFirst()) + rest, environment: environment, output: output,
                        errors: errors)
                    return code == 0 ? .done : .usage
                }
                if command.name == "doctor" {
                    return DoctorCommand.run(rest, environment, terminal, output: output)
                }
                try run(command, try Arguments(rest, for: command), environment, terminal, output)
                return .done
            }
        } catch {
            let words = named(arguments)
            errors("\(words): \(error)\n")
            if error is UsageError { errors("\(words) --help says what is possible\n") }
            return code(of: error)
        }
    }

    /// The program and what of the arguments names a command.
    private static func named(_ arguments: [String]) -> String {
        var path: [String] = []
        for word in arguments.prefix(2) {
            guard Command.all.contains(where: { $0.path.starts(with: path + [word]) }) else { break }
            path.append(word)
        }
        return (["media-relay"] + path).joined(separator: " ")
    }

    private static func run(
        _ command: Command, _ line: Arguments, _ environment: [String: String], _ terminal: Terminal,
        _ output: @escaping @Sendable (String) -> Void
    ) throws {
        switch command.name {
        case "version": output("media-relay \(Version.text)\n")
        case "man": output(ManualPage.text)
        case "metrics reference": output(Metric.reference)
        case "completion": output(Completion.script(for: line.operands[0]))
        case "token":
            let now = Int64(Date().timeIntervalSince1970)
            output(try TokenCommand.token(line, environment, nowSeconds: now) + "\n")
        case "load":
            let load = try LoadCommand(line, environment, terminal, output: output)
            try wait { try await load.run(progress: { ServeProcess.print($0, to: 2) }) }
        default:
            let connection = try NodeConnection(line, environment)
            try wait {
                let commands = NodeCommands(
                    client: connection.client, line: line, terminal: terminal, output: output)
                try await commands.run(command)
            }
        }
    }

    /// Runs asynchronous work to its end; the calling thread does nothing else meanwhile.
    private static func wait(_ work: @escaping @Sendable () async throws -> Void) throws {
        let box = ResultBox()
        let done = DispatchSemaphore(value: 0)
        Task {
            do {
                try await work()
            } catch {
                box.error = error
            }
            done.signal()
        }
        done.wait()
        if let error = box.error { throw error }
    }

    static func code(of error: any Error) -> ExitCode {
        switch error {
        case is NotFound: .notFound
        case RelayClient.Failure.unreachable: .unreachable
        case RelayClient.Failure.problem(let problem): problem.status == 404 ? .notFound : .failed
        case is RelayClient.Failure, is LoadCommand.Incomplete, is LoadFault: .failed
        default: .usage
        }
    }
}

private final class ResultBox: @unchecked Sendable {
    // @unchecked: written before the semaphore is signalled, read behind it.
    var error: (any Error)?
}
