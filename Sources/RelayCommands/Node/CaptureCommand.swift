import Foundation
import RelayClient

/// `capture ROOM --out FILE`: the headers of a room's datagrams as a file that Wireshark opens.
extension NodeCommands {
    func capture(_ room: String) async throws {
        guard let path = line["out"] else { throw UsageError("--out FILE is needed") }
        let seconds = Int64(try line.integer("seconds", 1...300) ?? 60)
        let kibibytes = Int64(try line.integer("kibibytes", 16...16_384) ?? 4_096)
        // Before anything is asked: a file that cannot be written is no reason to capture.
        guard FileManager.default.createFile(atPath: path, contents: nil) else {
            throw UsageError("--out \(path): cannot be written")
        }
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        let bytes: [UInt8]
        do {
            bytes = try await client.fetch(
                "POST", "/v1/rooms/\(Self.escaped(room))/capture",
                body: .object(["seconds": .integer(seconds), "kibibytes": .integer(kibibytes)]),
                timeoutMs: Int(seconds) * 1_000 + 15_000)
        } catch {
            try? FileManager.default.removeItem(atPath: path)
            throw error
        }
        try file.write(contentsOf: Data(bytes))
        try file.close()
        output(
            line.has("json")
                ? Self.text(
                    of: RelayClient.JSON.object(["file": .string(path), "bytes": .integer(Int64(bytes.count))])) + "\n"
                : Terminal.printable("\(path): \(Quantity.bytes(Int64(bytes.count)))") + "\n")
    }
}
