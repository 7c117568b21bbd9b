import Foundation
import RTPCore
import RelayCore

/// The operator's folder of sounds: `NAME.opus` files (Ogg Opus, RFC 7845), read at the start and at SIGHUP. What cannot be read is left
/// out and said why; nothing of it comes from the network.
package enum SoundFolder {
    /// Files of one folder, and their bytes together.
    package static let fileCount = 128
    package static let byteCount = 16 << 20
    /// One file, with what Ogg adds to its packets.
    static let fileByteCount = 3 << 20

    /// Tones and files together, and what is wrong with the files that are left out.
    package static func library(folder: String?) -> (library: SoundLibrary, faults: [String]) {
        var library = SoundLibrary()
        for tone in Tone.all {
            guard let sound = tone.sound() else { continue }
            library[SoundName(.tone, tone.name)] = SoundLibrary.Entry(sound, pause: tone.pause)
        }
        guard let folder else { return (library, []) }
        var faults: [String] = []
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".opus") }
                .sorted()
        } catch {
            return (library, ["\(folder): \(error.localizedDescription)"])
        }
        var rest = byteCount
        for (index, file) in names.enumerated() {
            guard index < fileCount else {
                faults.append("\(file): the folder has more than \(fileCount) files")
                break
            }
            do throws(Fault) {
                let sound = try read(folder + "/" + file)
                let size = sound.packets.reduce(0) { $0 + $1.count }
                guard size <= rest else { throw Fault("more than \(byteCount) bytes of sound in the folder") }
                rest -= size
                let name = String(file.dropLast(".opus".count))
                guard isIdentifier(name) else { throw Fault("its name is not [A-Za-z0-9._-]{1,128}") }
                library[SoundName(.file, name)] = SoundLibrary.Entry(sound)
            } catch {
                faults.append("\(file): \(error.description)")
            }
        }
        return (library, faults)
    }

    private struct Fault: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    private static func read(_ path: String) throws(Fault) -> Sound {
        guard let file = FileHandle(forReadingAtPath: path) else { throw Fault("cannot be opened") }
        defer { try? file.close() }
        // One byte more than allowed shows that there is more.
        guard let data = try? file.read(upToCount: fileByteCount + 1) else { throw Fault("cannot be read") }
        guard data.count <= fileByteCount else { throw Fault("more than \(fileByteCount) bytes") }
        let packets: [[UInt8]]
        do throws(OggOpusRefusal) {
            packets = try OggOpusFile.packets(Array(data))
        } catch {
            throw Fault(error.detail)
        }
        guard let sound = Sound(packets: packets) else {
            throw Fault(
                "not 1…\(Sound.packetCount) Opus packets of at most \(Sound.packetByteCount) bytes, "
                    + "\(Sound.byteCount) together")
        }
        return sound
    }
}
