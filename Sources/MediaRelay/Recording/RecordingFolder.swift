import CLinuxIO
import Glibc

/// The folder of one recording that is being made: its files, by number, and its index. Everything is opened below the folder's own descriptor, with mode
/// 0600 and never over what is there, so that no name leads elsewhere. A reserve of disk space is given up for the last index when the disk is full; its lock
/// says that somebody is still writing.
final class RecordingFolder {
    static let indexName = "recording.json"
    static let reserveName = ".reserve"
    private static let reserveByteCount = 64 << 10

    struct Failure: Error, CustomStringConvertible {
        var operation: String
        var code: Int32
        var isDiskFull: Bool { code == ENOSPC || code == EDQUOT }
        var description: String { "\(operation): \(Syscall.text(of: code))" }
    }

    private struct File {
        var name: String
        var descriptor: Int32
        /// What of it is whole.
        var byteCount: Int64 = 0
        var isBroken = false
    }

    let path: String
    private let descriptor: Int32
    private var reserve: Int32 = -1
    private var files: [Int: File] = [:]

    /// Makes the folder, and the one that it lies in where that is not there.
    init(below base: String, name: String) throws(Failure) {
        path = base + "/" + name
        if mkdir(base, 0o700) < 0, errno != EEXIST { throw Failure(operation: "make \(base)", code: errno) }
        if mkdir(path, 0o700) < 0 { throw Failure(operation: "make \(path)", code: errno) }
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(operation: "open \(path)", code: errno) }
        reserve = try create(Self.reserveName)
        _ = lio_lock_file(reserve)
        let result = posix_fallocate(reserve, 0, off_t(Self.reserveByteCount))
        if result != 0 {
            discard()
            throw Failure(operation: "reserve space in \(path)", code: result)
        }
    }

    deinit {
        for file in files.values { Syscall.close(file.descriptor) }
        if reserve >= 0 { Syscall.close(reserve) }
        if descriptor >= 0 { Syscall.close(descriptor) }
    }

    func create(_ name: String) throws(Failure) -> Int32 {
        let file = openat(descriptor, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure(operation: "make \(path)/\(name)", code: errno) }
        return file
    }

    func begin(_ number: Int, name: String) throws(Failure) {
        files[number] = File(name: name, descriptor: try create(name))
    }

    /// All or nothing: a file whose end does not fit stays as it was, and gets nothing more.
    func append(_ bytes: [UInt8], to number: Int) throws(Failure) {
        guard let file = files[number], !file.isBroken else { return }
        do throws(Failure) {
            try Self.write(bytes, to: file.descriptor, at: file.byteCount, name: file.name)
        } catch {
            _ = ftruncate(file.descriptor, off_t(file.byteCount))
            files[number]?.isBroken = true
            throw error
        }
        files[number]?.byteCount += Int64(bytes.count)
    }

    func patch(_ number: Int, at offset: Int, _ bytes: [UInt8]) throws(Failure) {
        guard let file = files[number], !file.isBroken else { return }
        try Self.write(bytes, to: file.descriptor, at: Int64(offset), name: file.name)
    }

    /// Bytes of each file that are whole.
    func byteCount(of name: String) -> Int64 { files.values.first { $0.name == name }?.byteCount ?? 0 }

    /// The index as a whole, or the one before it.
    func writeIndex(_ text: [UInt8]) throws(Failure) {
        let temporary = Self.indexName + ".new"
        _ = unlinkat(descriptor, temporary, 0)
        let file = try create(temporary)
        defer { Syscall.close(file) }
        do throws(Failure) {
            try Self.write(text, to: file, at: 0, name: temporary)
        } catch {
            _ = unlinkat(descriptor, temporary, 0)
            throw error
        }
        guard renameat(descriptor, temporary, descriptor, Self.indexName) == 0 else {
            throw Failure(operation: "name \(path)/\(Self.indexName)", code: errno)
        }
    }

    /// Gives back the space that was kept for the last index.
    func giveUpReserve() {
        guard reserve >= 0 else { return }
        _ = ftruncate(reserve, 0)
    }

    /// Nothing was recorded: an empty folder is left to nobody.
    func discard() {
        close()
        rmdir(path)
    }

    /// Nobody writes here any more.
    func close() {
        _ = unlinkat(descriptor, Self.reserveName, 0)
        if reserve >= 0 { Syscall.close(reserve) }
        reserve = -1
    }

    static func write(_ bytes: [UInt8], to file: Int32, at offset: Int64, name: String) throws(Failure) {
        var written = 0
        while written < bytes.count {
            let result = bytes.withUnsafeBytes { buffer in
                pwrite(
                    file, buffer.baseAddress.map { $0 + written }, buffer.count - written,
                    off_t(offset) + off_t(written))
            }
            if result < 0, errno == EINTR { continue }
            guard result > 0 else {
                throw Failure(operation: "write \(name)", code: result < 0 ? errno : ENOSPC)
            }
            written += result
        }
    }
}
