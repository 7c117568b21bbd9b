import Foundation
import Glibc
import RelayClient

/// A real `media-relay serve` on free loopback ports, over one data folder, that can be killed and started again.
final class RelayProcess {
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)
    private let folder: URL
    private let arguments: [String]
    private var processID: pid_t = 0
    private(set) var url = ""

    struct Failure: Error, CustomStringConvertible { var description: String }

    init(_ arguments: [String] = []) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.arguments = arguments
        try start()
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(at: folder)
    }

    private var logPath: String { folder.path + "/log" }
    var log: String { (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "" }

    func start() throws {
        _ = FileManager.default.createFile(atPath: logPath, contents: nil)
        let port = url.split(separator: ":").last.map(String.init) ?? "0"
        try spawn(
            [
                ControlHarness.executablePath, "serve", "--http", "127.0.0.1:\(port)", "--admin", "off", "--media",
                "127.0.0.1:0", "--data", folder.path + "/data", "--key",
                "k1:" + String(decoding: Self.secret, as: UTF8.self),
            ] + arguments)
        let end = Date().addingTimeInterval(20)
        while Date() < end {
            if let range = log.range(of: "http://127.0.0.1:[0-9]+", options: .regularExpression) {
                url = String(log[range])
                return
            }
            usleep(5_000)
        }
        throw Failure(description: "the relay did not start: \(log)")
    }

    /// Not Foundation's Process: that counts a child as running while a grandchild, our worker, lives.
    private func spawn(_ arguments: [String]) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, logPath, O_WRONLY | O_APPEND, 0)
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let result = posix_spawn(&processID, arguments[0], &actions, nil, &words, environ)
        guard result == 0 else { throw Failure(description: "posix_spawn: \(result)") }
    }

    /// As by a power cut: nothing is told, its workers live on.
    func kill() { end(by: SIGKILL) }

    func stop() { end(by: SIGTERM) }

    private func end(by signal: Int32) {
        guard processID != 0 else { return }
        Glibc.kill(processID, signal)
        waitpid(processID, nil, 0)
        processID = 0
    }

    func client() throws -> RelayClient {
        RelayClient(url: url, key: try SigningKey(id: "k1", secret: Self.secret))
    }
}
