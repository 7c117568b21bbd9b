import Foundation
import RelayCommands

/// Arguments to subcommands, nothing else.
@main
enum Main {
    static func main() {
        exit(Commands.run(Array(CommandLine.arguments.dropFirst()), environment: ProcessInfo.processInfo.environment))
    }
}
