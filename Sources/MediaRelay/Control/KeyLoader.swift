import Foundation
import Glibc

/// What a node finds on its host when it starts: key files, the boot's id, its data folder.
package enum KeyLoader {
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    /// Keys of `KID:SECRET` or `KID:@FILE`; the text of the secret is never part of an error.
    package static func keys(_ texts: [String]) throws(Failure) -> [SigningKey] {
        var keys: [SigningKey] = []
        for text in texts {
            guard let colon = text.firstIndex(of: ":") else { throw Failure(description: "--key: not KID:SECRET") }
            let id = String(text[..<colon])
            let rest = text[text.index(after: colon)...]
            do throws(SigningKey.Failure) {
                if rest.hasPrefix("@") {
                    keys.append(try key(id: id, file: try contents(of: String(rest.dropFirst()))))
                } else {
                    keys.append(try SigningKey(id: id, secret: Array(rest.utf8)))
                }
            } catch {
                throw Failure(description: "--key \(id): \(error)")
            }
            guard keys.dropLast().allSatisfy({ $0.id != id }) else {
                throw Failure(description: "--key \(id): given twice")
            }
        }
        return keys
    }

    private static func key(id: String, file: [UInt8]) throws(SigningKey.Failure) -> SigningKey {
        if file.starts(with: "-----BEGIN".utf8) { return try SigningKey(id: id, pem: file) }
        // A secret in a file usually ends with a line break that is not meant.
        var secret = file[...]
        while let last = secret.last, last == 0x0A || last == 0x0D { secret.removeLast() }
        return try SigningKey(id: id, secret: Array(secret))
    }

    private static func contents(of path: String) throws(SigningKey.Failure) -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path), data.count <= 64 * 1_024 else { throw .form }
        return Array(data)
    }

    static func randomSecret() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        let secret = (0..<48).map { _ in UInt8.random(in: 0...255, using: &generator) }
        return Array(Base64URL.encode(secret).utf8)
    }

    /// Makes the folders above the data folder; `DataFolder` makes the last one with its own permissions.
    static func made(_ path: String) throws -> String {
        let parent = (path as NSString).deletingLastPathComponent
        if !parent.isEmpty {
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        }
        return path
    }

    /// Instants mean nothing after a reboot: the journal remembers in which boot it was written.
    static func bootID() -> String {
        guard let data = FileManager.default.contents(atPath: "/proc/sys/kernel/random/boot_id") else {
            return "unknown"
        }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
