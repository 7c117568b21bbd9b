import CLinuxIO
import Glibc

/// The folder where a node keeps its link socket, lock and journal: made with mode 0700, owned by this user,
/// used by one control process at a time. Holding the object is holding the lock.
package final class DataFolder {
    package enum Failure: Error, Hashable, CustomStringConvertible {
        case unusable(path: String, reason: String)
        /// Another control process runs on this folder.
        case inUse(path: String, processID: String)

        package var description: String {
            switch self {
            case .unusable(let path, let reason): "data folder \(path): \(reason)"
            case .inUse(let path, let processID):
                "data folder \(path) is in use by another control process (pid \(processID))"
            }
        }
    }

    package let path: String
    /// The Unix socket that workers connect to. At most 107 bytes, which is checked here.
    package let linkPath: String
    private let lockDescriptor: Int32

    package init(path: String) throws(Failure) {
        self.path = path
        linkPath = path + "/workers.sock"
        guard linkPath.utf8.count <= 107 else {
            throw .unusable(path: path, reason: "the socket's path in it exceeds 107 bytes")
        }
        if mkdir(path, 0o700) < 0, errno != EEXIST {
            throw .unusable(path: path, reason: Syscall.text(of: errno))
        }
        var status = stat()
        guard stat(path, &status) == 0 else { throw .unusable(path: path, reason: Syscall.text(of: errno)) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .unusable(path: path, reason: "not a folder") }
        guard status.st_uid == geteuid() else { throw .unusable(path: path, reason: "owned by another user") }
        guard status.st_mode & 0o022 == 0 else {
            throw .unusable(path: path, reason: "writable by other users")
        }
        lockDescriptor = try Self.lock(path)
    }

    /// Closing the descriptor gives the lock back.
    deinit { Syscall.close(lockDescriptor) }

    private static func lock(_ path: String) throws(Failure) -> Int32 {
        let lockPath = path + "/control.lock"
        let descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .unusable(path: lockPath, reason: Syscall.text(of: errno)) }
        let result = Syscall.retrying { lio_lock_file(descriptor) }
        guard result == 0 else {
            let holder = processID(in: descriptor)
            Syscall.close(descriptor)
            if result == -EWOULDBLOCK { throw .inUse(path: path, processID: holder) }
            throw .unusable(path: lockPath, reason: Syscall.text(of: -result))
        }
        // For the message above, when somebody else tries: failing to note it does no harm.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, text, text.count, 0) }
        return descriptor
    }

    private static func processID(in descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let digits = bytes.prefix(max(count, 0)).prefix { (0x30...0x39).contains($0) }
        return digits.isEmpty ? "unknown" : String(decoding: digits, as: UTF8.self)
    }
}
