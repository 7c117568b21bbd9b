import CLinuxIO
import Glibc
import RTPCore

/// One worker process, child of ours or of an earlier control, held by a pidfd: its end shows as readability,
/// and its number cannot come to mean another process unnoticed. Owns the descriptor, not the process.
final class WatchedProcess {
    let processID: Int32
    let descriptor: Int32

    /// Starts a worker in a session of its own, so that it outlives this process.
    /// `name`: its first argument, which `ps` shows; nil: the executable.
    init(
        starting executable: String, named name: String? = nil, arguments: [String], outputDescriptor: Int32
    ) throws(SystemError) {
        // A crash is to end the process at once: the backtracer would hold it up, and could print keys.
        var environment = Self.environment.filter { !$0.hasPrefix("SWIFT_BACKTRACE=") }
        environment.append("SWIFT_BACKTRACE=enable=no")
        let result = Self.withCStrings([name ?? executable] + arguments) { arguments in
            Self.withCStrings(environment) { environment in
                lio_spawn_session(executable, arguments, environment, outputDescriptor)
            }
        }
        processID = try Syscall.checked("start \(executable)") { result }
        let processID = processID
        descriptor = try Syscall.checked("pidfd of \(processID)") { lio_pidfd_open(processID) }
    }

    /// Watches a running process. Throws ESRCH when there is none.
    init(watching processID: Int32) throws(SystemError) {
        self.processID = processID
        descriptor = try Syscall.checked("pidfd of \(processID)") { lio_pidfd_open(processID) }
    }

    deinit { Syscall.close(descriptor) }

    /// Whether the process was started as a worker on this link: process numbers are used again.
    func isWorker(onLink linkPath: String) -> Bool {
        let commandLine = Self.read("/proc/\(processID)/cmdline").split(
            separator: 0, omittingEmptySubsequences: false)
        return commandLine.contains { $0.elementsEqual("worker".utf8) }
            && commandLine.contains { $0.elementsEqual(linkPath.utf8) }
    }

    /// Waits for its end.
    func hasEnded(within time: Interval) -> Bool {
        let limit = MonotonicClock.now() + time
        var descriptor = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let left = limit - MonotonicClock.now()
            if poll(&descriptor, 1, Int32(clamping: max(0, left.milliseconds))) > 0 { return true }
            if left <= .zero { return false }
        }
    }

    /// Called when the descriptor is readable: takes the exit status of a child, and says how the process
    /// ended.
    func reap() -> String {
        var status: Int32 = 0
        let result = Syscall.retrying { lio_reap(processID, &status) }
        guard result == 1 else { return "ended" }
        let signal = status & 0x7F
        return signal == 0 ? "exited with status \(status >> 8 & 0xFF)" : "killed by signal \(signal)"
    }

    func send(signal: Int32) { kill(processID, signal) }

    private static var environment: [String] {
        var strings: [String] = []
        var next = lio_environment()
        while let pointer = next, let string = pointer.pointee {
            strings.append(String(cString: string))
            next = pointer + 1
        }
        return strings
    }

    private static func read(_ path: String) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { Syscall.close(file) }
        var bytes = [UInt8](repeating: 0, count: 256 << 10)
        var count = 0
        while count < bytes.count {
            let result = bytes.withUnsafeMutableBytes { buffer in
                Syscall.retrying {
                    Glibc.read(file, buffer.baseAddress.map { $0 + count }, buffer.count - count)
                }
            }
            guard result > 0 else { break }
            count += result
        }
        return Array(bytes.prefix(count))
    }

    /// Gives `body` a null-terminated vector of C strings.
    private static func withCStrings<Result>(
        _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var pointers = strings.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { preconditionFailure("a vector without its end") }
            return body(UnsafePointer(base))
        }
    }
}
