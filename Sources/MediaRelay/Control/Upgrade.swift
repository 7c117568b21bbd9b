import CLinuxIO
import Glibc
import RTPCore
import RelayCore
import RelayHTTP

/// One program takes over from another in the process of the node: first the next one is tried, as a child that reads everything a
/// start reads and changes nothing; only when it is content this one hands over. Whatever fails, a program that works goes on.
struct Upgrade {
    let log: Log
    /// Of `media-relay serve`.
    let arguments: [String]

    /// Returns when this program goes on; the log says why.
    func run(_ node: Node) {
        let program = ProgramFile.path
        log.write(.info, "the program \(program) is to take over")
        do throws(SystemError) {
            try Trial.run(program, of: node, arguments: arguments)
        } catch {
            log.write(.error, "nothing was upgraded, this program goes on: \(error)")
            return
        }
        // The way back: this image, whatever has become of its file.
        let image = open(ProgramFile.image, O_RDONLY | O_CLOEXEC)
        var handOver = node.handOver()
        handOver.image = image >= 0 ? image : nil
        let error = handOver.exec(program)
        // Everything has been stopped: this program starts anew, from its own image.
        log.write(.error, "the upgrade failed, this program starts again: \(error)")
        handOver.failure = error.description
        handOver.image = nil
        log.write(.error, "\(handOver.exec(ProgramFile.image))")
        exit(1)
    }

    /// The program that took over does not start: the one that it took over from goes on, in this process. Returns where there is none.
    static func goBack(_ handOver: HandOver?, because reason: String, log: Log) {
        guard var handOver, let image = handOver.image else { return }
        handOver.failure = reason
        handOver.image = nil
        log.write(.error, "\(Version.text) does not start, the program from before goes on: \(reason)")
        log.write(.error, "\(handOver.exec("/proc/self/fd/\(image)"))")
    }
}

/// `media-relay trial`: whether this program would start where another one runs. Part of every version's contract with the one
/// before it: its arguments are only added to.
package enum Trial {
    private static let limit = Interval.seconds(20)

    /// Runs another program's trial. Throws, with what it says, when it would not start.
    static func run(_ program: String, of node: Node, arguments: [String]) throws(SystemError) {
        var words = ["trial", "--data", node.options.data]
        for version in node.control.status.linkVersions.sorted() { words += ["--link", "\(version)"] }
        for endpoint in node.options.http + (node.options.admin.map { [$0] } ?? []) {
            words += ["--listens", endpoint.text]
        }
        var pipe: [Int32] = [0, 0]
        guard Glibc.pipe(&pipe) == 0 else { throw SystemError("pipe", code: errno) }
        for descriptor in pipe { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        defer { Glibc.close(pipe[0]) }
        let process: WatchedProcess
        do {
            defer { Glibc.close(pipe[1]) }
            process = try WatchedProcess(
                starting: program, arguments: words + ["--"] + arguments, outputDescriptor: pipe[1])
        }
        if !process.hasEnded(within: limit) { process.send(signal: SIGKILL) }
        _ = process.hasEnded(within: .seconds(2))
        let end = process.reap()
        guard end != "exited with status 0" else { return }
        var output = [UInt8](repeating: 0, count: 4_096)
        let length = max(0, read(pipe[0], &output, output.count))
        let said = String(decoding: output[..<length], as: UTF8.self).split(whereSeparator: \.isNewline)
        throw SystemError(
            "\(program) \(end)" + (said.isEmpty ? "" : ": " + said.joined(separator: "; ")), code: EINVAL)
    }

    /// The exit code: 0 when a node with these arguments would start.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        do {
            var rest = arguments[...]
            var held: Set<String> = []
            var data: String?
            while let word = rest.popFirst(), word != "--" {
                guard let value = rest.popFirst() else { break }
                switch word {
                case "--link": try check(linkVersion: value)
                case "--listens": held.insert(value)
                case "--data": data = value
                default: break
                }
            }
            let options = try ServeOptions(
                arguments: Array(rest), environment: environment, processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
            guard data == nil || data == options.data else {
                throw KeyLoader.Failure(
                    description: "the data folder is another one, \(options.data): that needs a stop and a start")
            }
            try Node.check(options, held: held)
            return 0
        } catch {
            ServeProcess.print("\(error)\n", to: 2)
            return 1
        }
    }
}

extension Trial {
    private static func check(linkVersion text: String) throws(KeyLoader.Failure) {
        guard let version = UInt8(text), LinkFormat.versions.contains(version) else {
            throw KeyLoader.Failure(
                description: "a worker that runs speaks version \(text) of the link, \(Version.text) only "
                    + "\(LinkFormat.versions.lowerBound) to \(LinkFormat.versions.upperBound)")
        }
    }
}

extension Node {
    /// Reads whatever a start reads, and looks whether the API's addresses are free but for those that are `held`. Changes nothing.
    static func check(_ options: ServeOptions, held: Set<String>) throws {
        for endpoint in options.http + (options.admin.map { [$0] } ?? []) where !held.contains(endpoint.text) {
            try HTTPServer.check(.init(address: endpoint.address, port: endpoint.port))
        }
        _ = try KeyLoader.keys(options.keys)
        _ = try WebhookEndpoint.endpoints(of: options)
        if let certificate = options.tlsCertificate, let key = options.tlsKey {
            try HTTPServer.check(.init(certificatePath: certificate, privateKeyPath: key))
        }
        try Journal.check(path: options.data + "/journal.sqlite")
        try SRTPSelfTest.run()
    }
}
