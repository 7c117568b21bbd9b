import Glibc
import RTPCore
import RelayCore

@testable import MediaRelay

extension FuzzTarget {
    /// A journal's file with some of its bytes changed, and cut: it is refused, or what is in it is read, a conductor goes on from
    /// it, and it takes up more. An input is where it is cut and a row of places and bytes.
    static let database = FuzzTarget(
        name: "database", byteLimit: 512,
        seeds: {
            let places = stride(from: 0, to: goodDatabase.count, by: 1_024).map { (at: Int) -> [UInt8] in
                [255, UInt8(at >> 16), UInt8(at >> 8 & 255), UInt8(at & 255), 4, 0xFF, 0x7F, 0x00, 0x80]
            }
            return [[255]] + places + [[128], [100, 0, 0, 92, 4, 0, 0, 0, 9]]
        }
    ) { bytes in
        var input = FuzzInput(bytes)
        var file = goodDatabase
        let cut = Int(input.byte())
        if cut < 255 { file.removeLast(file.count * (255 - cut) / 255) }
        while !input.isEmpty, !file.isEmpty {
            let at = (Int(input.byte()) << 16 | Int(input.byte()) << 8 | Int(input.byte())) % file.count
            for (offset, byte) in input.piece().enumerated() where at + offset < file.count { file[at + offset] = byte }
        }
        let path = temporaryPath()
        defer { remove(path) }
        write(file, to: path)
        do throws(SQLiteError) {
            try goOn(from: try Journal(path: path, bootID: "boot"))
        } catch {
            require(!error.description.isEmpty, "a refusal that says nothing")
        }
    }

    /// What control does with a journal that it finds.
    private static func goOn(from journal: Journal) throws(SQLiteError) {
        let contents = try journal.contents()
        let restored = RestoredRooms(contents, log: silentLog)
        let keys = contents.keys.compactMap { RecordCoding.decodeKey($0.record, log: silentLog) }
        let scene = LinkScene(restoring: restored.rooms, keys: keys, nextSeq: contents.lastSeq + 1)
        scene.live()
        _ = try journal.oldestSeq()
        for event in try journal.events(after: 0, room: nil, limit: 100) {
            require(event.json.count < 1 << 20, "a long event")
        }
        _ = try journal.truncate(to: JournalRetention(), lastSeq: contents.lastSeq, nowMs: 1_767_225_600_000)
        var entry = JournalEntry(turn: 1)
        entry.events = [
            JournalEvent(seq: contents.lastSeq + 1, room: nil, timeMs: 1, type: "node.started", json: Array("{}".utf8))
        ]
        try journal.store([entry])
    }
}

/// A journal with two rooms in use, one that has ended, a key and a worker, as it lies on the disk.
private let goodDatabase: [UInt8] = {
    let path = temporaryPath()
    defer { remove(path) }
    let scene = LinkScene()
    do {
        let journal = try Journal(path: path, bootID: "boot")
        var entry = JournalEntry(turn: 1)
        entry.rooms = scene.roomRecords.map { JournalRoom(id: $0.id.text, record: $0) }
        entry.events = (1...20).map {
            JournalEvent(
                seq: $0, room: $0 % 2 == 0 ? "call" : nil, timeMs: 1_767_225_600_000, type: "room.created",
                json: Array("{}".utf8))
        }
        entry.keys = scene.keys.map { JournalKey(key: "k/one", record: $0) }
        entry.workers = [JournalWorker(id: WorkerID(index: 0, epoch: 1), processID: 77)]
        try journal.store([entry])
    } catch {
        fatalError("no journal to begin with: \(error)")
    }
    return read(path)
}()

/// In memory: a commit is flushed each time.
private func temporaryPath() -> String { "/dev/shm/media-relay-fuzz-\(getpid()).sqlite" }

private func remove(_ path: String) { for suffix in ["", "-wal", "-shm", "-journal"] { unlink(path + suffix) } }

private func write(_ bytes: [UInt8], to path: String) {
    remove(path)
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    guard file >= 0, Glibc.write(file, bytes, bytes.count) == bytes.count else {
        fatalError("\(path) cannot be written")
    }
    close(file)
}

private func read(_ path: String) -> [UInt8] {
    let file = open(path, O_RDONLY)
    var bytes = [UInt8](repeating: 0, count: 1 << 22)
    let count = Glibc.read(file, &bytes, bytes.count)
    close(file)
    guard count > 0 else { fatalError("\(path) cannot be read") }
    return Array(bytes.prefix(count))
}
