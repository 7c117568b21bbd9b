import Foundation
import MediaRelay

/// Arguments to subcommands, nothing else.
@main
enum Main {
    static let usage = """
        usage: media-relay COMMAND [options]

          serve     run a node (see media-relay serve --help)
          config    show or check the configuration: print, check
          token     mint a token (see media-relay token --help)
          version   print the version

        """

    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        let rest = Array(arguments.dropFirst())
        let environment = ProcessInfo.processInfo.environment
        switch arguments.first {
        case "serve": exit(ServeProcess.run(arguments: rest, environment: environment))
        case "config": exit(ConfigCommand.run(arguments: rest, environment: environment))
        case "worker": exit(WorkerProcess.run(arguments: rest))
        case "token": exit(TokenCommand.run(arguments: rest, environment: environment))
        case "version", "--version": print("media-relay \(Version.text)")
        case "--help", "-h", "help": print(usage, terminator: "")
        default:
            FileHandle.standardError.write(Data(usage.utf8))
            exit(2)
        }
    }
}
