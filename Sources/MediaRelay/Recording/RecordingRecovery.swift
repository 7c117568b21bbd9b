import CLinuxIO
import Foundation
import Glibc
import RelayCore

/// What is done with the folder of recordings as a whole: finds those whose process died, and adds up its size. Follows no link.
enum RecordingRecovery {
    /// Marks the recordings as ended that nobody writes any more, by the lock that their worker held. Returns their folders.
    static func recover(_ base: String, nowMs: Int64) -> [String] {
        var recovered: [String] = []
        for name in folders(base) {
            let path = base + "/" + name
            let reserve = open(path + "/" + RecordingFolder.reserveName, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
            guard reserve >= 0 else { continue }
            defer { Syscall.close(reserve) }
            // Held: its worker lives.
            guard lio_lock_file(reserve) == 0 else { continue }
            _ = ftruncate(reserve, 0)
            if let text = index(of: path, nowMs: nowMs) {
                let temporary = path + "/" + RecordingFolder.indexName + ".new"
                unlink(temporary)
                let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
                guard file >= 0 else { continue }
                let isWritten: Bool
                do throws(RecordingFolder.Failure) {
                    try RecordingFolder.write(text, to: file, at: 0, name: temporary)
                    isWritten = true
                } catch {
                    isWritten = false
                }
                Syscall.close(file)
                guard isWritten, rename(temporary, path + "/" + RecordingFolder.indexName) == 0 else { continue }
                // Half a mix is none.
                unlink(path + "/" + AudioMixer.fileName)
            }
            unlink(path + "/" + RecordingFolder.reserveName)
            recovered.append(name)
        }
        return recovered
    }

    /// The index as its worker left it, with what can be known of the end. Nil where it cannot be read, or tells an end.
    private static func index(of path: String, nowMs: Int64) -> [UInt8]? {
        guard let data = FileManager.default.contents(atPath: path + "/" + RecordingFolder.indexName),
            case .object(var fields)? = try? JSONReader.read(Array(data))
        else { return nil }
        guard !fields.contains(.init("state", .string(RecordingIndex.State.ended.rawValue))) else { return nil }
        func set(_ name: String, _ value: JSONValue) {
            if let at = fields.firstIndex(where: { $0.name == name }) {
                fields[at].value = value
            } else {
                fields.append(.init(name, value))
            }
        }
        set("state", .string(RecordingIndex.State.ended.rawValue))
        set("reason", .string(RecordingEndReason.workerLost.rawValue))
        set("updatedAt", ViewJSON.time(nowMs))
        if case .array(let files)? = fields.first(where: { $0.name == "files" })?.value {
            set("files", .array(files.map { sized($0, in: path) }))
        }
        return JSONText.of(.object(fields)) + [0x0A]
    }

    private static func sized(_ file: JSONValue, in path: String) -> JSONValue {
        guard case .object(var fields) = file, case .string(let name)? = file["file"],
            let at = fields.firstIndex(where: { $0.name == "bytes" })
        else { return file }
        fields[at].value = .integer(size(of: path + "/" + name))
        return .object(fields)
    }

    /// Bytes of all files of all recordings.
    static func byteCount(of base: String) -> Int64 {
        folders(base).reduce(0) { sum, name in
            let path = base + "/" + name
            let files = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
            return sum + files.reduce(0) { $0 + size(of: path + "/" + $1) }
        }
    }

    private static func folders(_ base: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: base)) ?? []).filter(RecordingOrder.isFolderName)
            .sorted()
    }

    private static func size(of path: String) -> Int64 {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return 0 }
        return Int64(status.st_size)
    }
}
