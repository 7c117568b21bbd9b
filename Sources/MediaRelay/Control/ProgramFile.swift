import Foundation
import Glibc

/// The file that this process was started from, and what lies in its place now: told apart by what stat(2) says, so a file that was
/// replaced by a package is another one though its path is the same.
package enum ProgramFile {
    /// Names the running program's file: its version, and the file itself.
    package static let running = Version.text + "+" + (identity(of: "/proc/self/exe") ?? "unknown")

    /// The running image itself, whatever has become of its path: what workers are started from, so that control and workers are
    /// of one build.
    package static let image = "/proc/self/exe"

    /// Where the program lies for those who upgrade it. The kernel marks the path of a file that was replaced.
    package static let path: String = {
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: image)) ?? CommandLine.arguments[0]
        return path.hasSuffix(" (deleted)") ? String(path.dropLast(10)) : path
    }()

    /// Whether another file lies in the running one's place.
    package static var isReplaced: Bool {
        guard let there = identity(of: path), let here = identity(of: image) else { return false }
        return there != here
    }

    private static func identity(of path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let parts = [
            Int64(bitPattern: UInt64(status.st_dev)), Int64(bitPattern: UInt64(status.st_ino)), Int64(status.st_size),
            Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec),
        ]
        return parts.map { String($0, radix: 36) }.joined(separator: ".")
    }
}
