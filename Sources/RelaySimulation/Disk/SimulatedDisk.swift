import CSQLite
import RTPCore

/// A disk in memory under SQLite, by a VFS of its own: what processes see of each file, what is really on the disk, and the
/// writes in between, which only `xSync` makes last. Loses power and processes at any write, is full, fails. Confined to one
/// thread; knows nothing of what is in the files.
///
/// What a loss of power leaves: everything that was synced; of later writes any of them, whole, in part or not at all, whatever
/// the order. A write never harms bytes beside its own (SQLite's "powersafe overwrite", as on Linux). A failed sync loses writes
/// though they can still be read (as on ext4 since Linux 4.13), until they are written again.
public final class SimulatedDisk {
    /// What is wrong now.
    public struct Faults: Equatable, Sendable {
        /// Nothing gets longer.
        public var isFull = false
        public var failsWrites = false
        public var failsSyncs = false
        public var failsReads = false
        public init() {}
        public static let none = Faults()
    }

    /// Of these many operations that change something the last one is not finished: the process is dead in the midst of it.
    public var operationsUntilCrash: Int?
    public var faults = Faults.none
    /// Says that it has synced and has not: what a test of the simulation must notice.
    public var liesAboutSyncs = false
    /// The process that used it is dead: everything fails until `restart`.
    public private(set) var isDead = false
    public private(set) var operationCount = 0
    public private(set) var syncCount = 0

    enum Change {
        case write(offset: Int, bytes: [UInt8])
        case cut(byteCount: Int)
    }

    final class File {
        /// As processes see it.
        var seen: [UInt8] = []
        /// As a loss of power leaves it at least.
        var stored: [UInt8] = []
        var changes: [Change] = []
        /// Its name lasts.
        var isStored = false
        var memory: SharedMemory?
        var handles: [ObjectIdentifier: Handle] = [:]
    }

    private(set) var files: [String: File] = [:]
    /// Deleted, and back after a loss of power, perhaps.
    private var deleted: [(name: String, file: File)] = []
    private var random: RandomSource
    let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    private let vfsNameBytes: UnsafeMutablePointer<CChar>

    /// For `Journal`'s `vfs`.
    public let vfsName: String

    public init(seed: UInt64) {
        random = .seeded(seed)
        vfsName = "simulated-\(UInt(bitPattern: vfs))"
        vfsNameBytes = .allocate(capacity: vfsName.utf8.count + 1)
        for (index, byte) in vfsName.utf8CString.enumerated() { vfsNameBytes[index] = byte }
        vfs.initialize(to: Self.makeVFS(named: vfsNameBytes))
        vfs.pointee.pAppData = Unmanaged.passUnretained(self).toOpaque()
        precondition(sqlite3_vfs_register(vfs, 0) == SQLITE_OK)
    }

    deinit {
        sqlite3_vfs_unregister(vfs)
        vfs.deallocate()
        vfsNameBytes.deallocate()
    }

    /// Bytes in all files as processes see them.
    public var byteCount: Int { files.values.reduce(0) { $0 + $1.seen.count } }
    /// Writes that a loss of power may undo.
    public var unsyncedCount: Int { files.values.reduce(0) { $0 + $1.changes.count } }

    // MARK: Ends of processes

    /// The process is killed: its open files are dead, what it wrote is not lost.
    public func killProcess() {
        isDead = true
        operationsUntilCrash = nil
        for file in files.values {
            for handle in file.handles.values { handle.isDead = true }
            file.handles = [:]
            file.memory = nil
        }
    }

    /// The machine loses power, and with it every process.
    public func losePower() {
        killProcess()
        // Sometimes everything had reached the disk, sometimes nothing.
        let mood = Int.random(in: 0..<8, using: &random)
        for (name, file) in deleted where files[name] == nil && Int.random(in: 0..<3, using: &random) == 0 {
            files[name] = file
        }
        deleted = []
        for (name, file) in files.sorted(by: { $0.key < $1.key }) {
            if !file.isStored, mood != 0, mood == 1 || Bool.random(using: &random) {
                files[name] = nil
                continue
            }
            for change in file.changes { keep(change, of: file, mood: mood) }
            file.changes = []
            file.seen = file.stored
            file.isStored = true
        }
    }

    private func keep(_ change: Change, of file: File, mood: Int) {
        switch mood {
        case 0: apply(change, to: &file.stored)
        case 1: break
        default:
            switch (change, Int.random(in: 0..<5, using: &random)) {
            case (_, 0...1): apply(change, to: &file.stored)
            case (.write(let offset, let bytes), 2):
                // Torn: the front, the back, or sectors of it.
                let edge = Int.random(in: 0...bytes.count, using: &random)
                if Bool.random(using: &random) {
                    apply(.write(offset: offset, bytes: Array(bytes[..<edge])), to: &file.stored)
                } else {
                    apply(.write(offset: offset + edge, bytes: Array(bytes[edge...])), to: &file.stored)
                }
            default: break
            }
        }
    }

    /// A new process may use it.
    public func restart() { isDead = false }

    // MARK: What handles do

    private func apply(_ change: Change, to bytes: inout [UInt8]) {
        switch change {
        case .write(let offset, let new):
            guard !new.isEmpty else { return }
            if bytes.count < offset + new.count {
                bytes.append(contentsOf: repeatElement(0, count: offset + new.count - bytes.count))
            }
            bytes.withUnsafeMutableBytes { all in
                new.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: all[offset...]).copyMemory(from: $0) }
            }
        case .cut(let count): if count < bytes.count { bytes.removeLast(bytes.count - count) }
        }
    }

    /// False: the process dies in the midst of this operation.
    private func survives() -> Bool {
        operationCount += 1
        guard let left = operationsUntilCrash else { return true }
        operationsUntilCrash = left - 1
        if left <= 1 { isDead = true }
        return left > 1
    }

    func write(_ bytes: [UInt8], at offset: Int, to file: File) -> Int32 {
        guard !isDead else { return DiskFailure.write }
        if faults.failsWrites { return DiskFailure.write }
        if faults.isFull, offset + bytes.count > file.seen.count { return SQLITE_FULL }
        var bytes = bytes
        let isWhole = survives()
        if !isWhole { bytes.removeLast(Int.random(in: 0...bytes.count, using: &random)) }
        let change = Change.write(offset: offset, bytes: bytes)
        apply(change, to: &file.seen)
        file.changes.append(change)
        return isWhole ? SQLITE_OK : DiskFailure.write
    }

    func cut(_ file: File, to byteCount: Int) -> Int32 {
        guard !isDead, survives() else { return DiskFailure.write }
        apply(.cut(byteCount: byteCount), to: &file.seen)
        file.changes.append(.cut(byteCount: byteCount))
        return SQLITE_OK
    }

    func sync(_ file: File) -> Int32 {
        guard !isDead else { return DiskFailure.sync }
        if faults.failsSyncs {
            // What the kernel gave up it calls clean.
            file.changes.removeAll { _ in Bool.random(using: &random) }
            return DiskFailure.sync
        }
        guard survives() else { return DiskFailure.sync }
        syncCount += 1
        guard !liesAboutSyncs else { return SQLITE_OK }
        for change in file.changes { apply(change, to: &file.stored) }
        file.changes.removeAll(keepingCapacity: true)
        // A new file is synced with its folder (as SQLite does on Linux), and with that what was deleted from it.
        if !file.isStored { deleted = [] }
        file.isStored = true
        return SQLITE_OK
    }

    func open(_ name: String?, creates: Bool) -> File? {
        guard !isDead else { return nil }
        guard let name else { return File() }
        if let file = files[name] { return file }
        guard creates, !faults.isFull, survives() else { return nil }
        let file = File()
        files[name] = file
        return file
    }

    func delete(_ name: String, isSynced: Bool) -> Int32 {
        guard !isDead, survives() else { return DiskFailure.delete }
        guard let file = files.removeValue(forKey: name) else { return SQLITE_OK }
        if !isSynced, file.isStored { deleted.append((name, file)) }
        return SQLITE_OK
    }

    func exists(_ name: String) -> Bool { files[name] != nil }
}

/// SQLite's extended codes are macros that Swift does not import.
enum DiskFailure {
    static let read = SQLITE_IOERR | 1 << 8
    static let shortRead = SQLITE_IOERR | 2 << 8
    static let write = SQLITE_IOERR | 3 << 8
    static let sync = SQLITE_IOERR | 4 << 8
    static let delete = SQLITE_IOERR | 10 << 8
}
