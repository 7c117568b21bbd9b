import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore

/// One relay under load: `serve` of a binary, with ports and a data folder of its own. Started, killed and started again as an
/// operator's supervisor would; touches no process that it did not start. Confined to the loop's thread.
final class RelayProcess: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    let binary: String
    let folder: String
    let httpPort: UInt16
    let mediaPort: UInt16
    let key: SigningKey
    static let secret = "the secret of a load test, not of anybody's relay"
    private let loop: EventLoop
    private(set) var processID: Int32 = 0
    private let log: Int32
    private let workers: Int
    private let options: [String]

    /// `options`: more of `serve`'s. Ports below the range that the system gives to clients: while control is away, a client that connects to a port of that
    /// range could find itself.
    init(_ loop: EventLoop, binary: String, seed: UInt64, workers: Int = 1, options: [String] = []) throws {
        self.loop = loop
        self.binary = binary
        self.workers = workers
        self.options = options
        key = try SigningKey(id: "load", secret: Array(Self.secret.utf8))
        var random = RandomSource.seeded(seed &+ UInt64(getpid()))
        guard let http = Self.freePort(SOCK_STREAM, &random), let media = Self.freePort(SOCK_DGRAM, &random) else {
            throw LoadFailure("no free ports between 20000 and 32000")
        }
        httpPort = http
        mediaPort = media
        var template = Array("/tmp/media-relay-load-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw LoadFailure("no temporary folder") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        log = open(folder + "/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard access(binary, X_OK) == 0 else { throw LoadFailure("\(binary) is missing: build it first") }
    }

    private static func freePort(_ type: __socket_type, _ random: inout RandomSource) -> UInt16? {
        for _ in 0..<200 {
            let port = UInt16.random(in: 20_000..<32_000, using: &random)
            let descriptor = socket(AF_INET, Int32(type.rawValue), 0)
            guard descriptor >= 0 else { return nil }
            defer { Glibc.close(descriptor) }
            if lio_bind(descriptor, 1, 0, 0xFFFF_7F00_0001, port) == 0 { return port }
        }
        return nil
    }

    var dataFolder: String { folder + "/data" }

    /// Starts control and waits until it takes rooms.
    func start() async throws {
        let arguments =
            [
                binary, "serve", "--http", "127.0.0.1:\(httpPort)", "--media", "127.0.0.1:\(mediaPort)", "--data",
                dataFolder, "--key", "load:\(Self.secret)", "--workers", "\(workers)", "--admin", "off",
                "--requests-per-second",
                "100000", "--log-level", "warning",
            ] + options + admission
        processID = try Self.spawn(arguments, output: log)
        Interrupts.watch(self)
        try await waitUntilReady()
    }

    /// Load is the purpose here: a relay refuses nobody for it unless a scenario asks for that.
    private var admission: [String] { options.contains("--admission") ? [] : ["--admission", "off"] }

    /// Starts a program, the first of `arguments`, in a session of its own.
    static func spawn(_ arguments: [String], output: Int32) throws -> Int32 {
        var pointers = arguments.map { strdup($0) } + [nil]
        let result = pointers.withUnsafeMutableBufferPointer { buffer -> Int32 in
            guard let base = buffer.baseAddress else { return -EINVAL }
            return lio_spawn_session(arguments[0], UnsafePointer(base), lio_environment(), output)
        }
        for pointer in pointers { free(pointer) }
        guard result > 0 else { throw LoadFailure("\(arguments[0]) did not start: error \(-result)") }
        return result
    }

    private func waitUntilReady() async throws {
        let limit = MonotonicClock.now() + .seconds(20)
        while MonotonicClock.now() < limit {
            if let code = exitStatus() { throw LoadFailure("the relay ended with status \(code): \(logTail)") }
            if let connection = try? HTTPConnection(loop, port: httpPort) {
                let reply = try? await connection.exchange(Array("GET /readyz HTTP/1.1\r\nHost: relay\r\n\r\n".utf8))
                connection.close()
                if reply?.status == 200 { return }
            }
            await loop.sleep(for: .milliseconds(5))
        }
        throw LoadFailure("the relay was not ready within 20 s: \(logTail)")
    }

    /// Nil while it runs.
    private func exitStatus() -> Int32? {
        var status: Int32 = 0
        return lio_reap(processID, &status) == 1 ? status : nil
    }

    /// To control alone.
    func signal(_ number: Int32) { kill(processID, number) }

    /// Whether control runs and is that process.
    func isRunning(as processID: Int32) -> Bool { self.processID == processID && exitStatus() == nil }

    /// SIGKILL to control alone.
    func killControl() async {
        kill(processID, SIGKILL)
        while exitStatus() == nil { await loop.sleep(for: .milliseconds(1)) }
        processID = 0
    }

    /// Ends control and workers and removes the folder.
    func stop() async {
        if processID > 0 {
            kill(processID, SIGTERM)
            let limit = MonotonicClock.now() + .seconds(10)
            while exitStatus() == nil {
                if MonotonicClock.now() > limit { kill(processID, SIGKILL) }
                await loop.sleep(for: .milliseconds(5))
            }
            processID = 0
        }
        Interrupts.watch(nil)
        removeRest()
    }

    /// The same without waiting for goodbyes.
    func abandon() {
        if processID > 0 {
            kill(processID, SIGKILL)
            while exitStatus() == nil { usleep(1_000) }
        }
        removeRest()
    }

    private func removeRest() {
        for worker in workerIDs() { kill(worker, SIGKILL) }
        Glibc.close(log)
        Self.remove(folder)
    }

    private static func remove(_ path: String) {
        if let directory = opendir(path) {
            while let entry = readdir(directory) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                if name != ".", name != ".." { remove(path + "/" + name) }
            }
            closedir(directory)
            rmdir(path)
        } else {
            unlink(path)
        }
    }

    var logTail: String { String(decoding: ProcessStatus.read(folder + "/log").suffix(2_000), as: UTF8.self) }

    /// Workers on this relay's link that run now.
    func workerIDs() -> [Int32] {
        let link = Array((dataFolder + "/workers.sock").utf8)
        guard let directory = opendir("/proc") else { return [] }
        defer { closedir(directory) }
        var found: [Int32] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard let id = Int32(name) else { continue }
            let words = ProcessStatus.read("/proc/\(id)/cmdline").split(separator: 0)
            if words.contains(where: { $0.elementsEqual(link) }),
                words.contains(where: { $0.elementsEqual("worker".utf8) })
            {
                found.append(id)
            }
        }
        return found
    }
}

/// What the system says of a process.
struct ProcessStatus {
    /// Resident bytes that are the process's own.
    var residentBytes = 0
    var threads = 0
    /// Nil: not to be seen by this user.
    var descriptors: Int?

    init(_ processID: Int32) {
        for line in String(decoding: Self.read("/proc/\(processID)/status"), as: UTF8.self).split(separator: "\n") {
            let words = line.split(whereSeparator: { $0 == ":" || $0 == "\t" || $0 == " " })
            guard words.count > 1, let number = Int(words[1]) else { continue }
            if words[0] == "RssAnon" { residentBytes = number * 1_024 }
            if words[0] == "Threads" { threads = number }
        }
        guard let directory = opendir("/proc/\(processID)/fd") else { return }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        closedir(directory)
        descriptors = count - 2
    }

    /// What the process has used of the CPUs, all threads.
    static func cpuSeconds(_ processID: Int32) -> Double {
        let text = String(decoding: read("/proc/\(processID)/stat"), as: UTF8.self)
        guard let end = text.lastIndex(of: ")") else { return 0 }
        let words = text[text.index(after: end)...].split(separator: " ")
        guard words.count > 12, let user = Double(words[11]), let system = Double(words[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    static func read(_ path: String) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { Glibc.close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = Glibc.read(file, &buffer, buffer.count)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }
}

/// Takes the relay along when the load program is interrupted.
enum Interrupts {
    /// Set by the signal's handler, looked at in every turn of the loop.
    nonisolated(unsafe) private static var isSet: sig_atomic_t = 0
    nonisolated(unsafe) private static var relay: RelayProcess?

    static func install() {
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGINT, SIGTERM] { signal(number) { _ in Interrupts.isSet = 1 } }
    }

    /// The relay that is to be stopped; one at a time. Loop's thread.
    static func watch(_ relay: RelayProcess?) { self.relay = relay }

    static func exitIfSet() {
        guard isSet != 0 else { return }
        relay?.abandon()
        exit(130)
    }
}
