import CSQLite

// The disk as SQLite asks for it: its VFS, the methods of an open file, locks, and the memory that connections to one
// write-ahead log share. One thread, so a lock that is taken is an answer, never a wait.

extension SimulatedDisk {
    /// What connections of one process share of a write-ahead log.
    final class SharedMemory {
        var regions: [UnsafeMutableRawPointer] = []
        var users = 0
        deinit { for region in regions { region.deallocate() } }
    }

    /// One open file.
    final class Handle {
        let disk: SimulatedDisk
        let file: File
        var isDead = false
        /// SQLITE_LOCK_NONE…EXCLUSIVE.
        var lock: Int32 = 0
        var memory: SharedMemory?
        /// Locks on the shared memory, a bit each.
        var shared: UInt32 = 0
        var exclusive: UInt32 = 0

        init(_ disk: SimulatedDisk, _ file: File) {
            self.disk = disk
            self.file = file
            file.handles[ObjectIdentifier(self)] = self
        }

        var isUseless: Bool { isDead || disk.isDead }
        var others: [Handle] { file.handles.values.filter { $0 !== self } }
    }

    private static let headByteCount = 16
    private static let regionByteCount = 32 * 1024

    private static func disk(_ vfs: UnsafeMutablePointer<sqlite3_vfs>?) -> SimulatedDisk? {
        vfs?.pointee.pAppData.map { Unmanaged<SimulatedDisk>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func slot(_ file: UnsafeMutablePointer<sqlite3_file>?) -> UnsafeMutablePointer<UnsafeRawPointer?>? {
        // Behind SQLite's own field.
        file.map { UnsafeMutableRawPointer($0).advanced(by: 8).assumingMemoryBound(to: UnsafeRawPointer?.self) }
    }

    private static func handle(_ file: UnsafeMutablePointer<sqlite3_file>?) -> Handle? {
        slot(file)?.pointee.map { Unmanaged<Handle>.fromOpaque($0).takeUnretainedValue() }
    }

    static func makeVFS(named name: UnsafePointer<CChar>) -> sqlite3_vfs {
        var vfs = sqlite3_vfs()
        vfs.iVersion = 1
        vfs.szOsFile = Int32(headByteCount)
        vfs.mxPathname = 512
        vfs.zName = name
        vfs.xOpen = { vfs, name, file, flags, outFlags in
            file?.pointee.pMethods = nil
            guard let disk = SimulatedDisk.disk(vfs), let file,
                let found = disk.open(name.map { String(cString: $0) }, creates: flags & SQLITE_OPEN_CREATE != 0)
            else { return SQLITE_CANTOPEN }
            let handle = Handle(disk, found)
            SimulatedDisk.slot(file)?.pointee = UnsafeRawPointer(Unmanaged.passRetained(handle).toOpaque())
            file.pointee.pMethods = UnsafePointer(SimulatedDisk.methods)
            outFlags?.pointee = flags
            return SQLITE_OK
        }
        vfs.xDelete = { vfs, name, isSynced in
            guard let disk = SimulatedDisk.disk(vfs), let name else { return DiskFailure.delete }
            return disk.delete(String(cString: name), isSynced: isSynced != 0)
        }
        vfs.xAccess = { vfs, name, _, result in
            guard let disk = SimulatedDisk.disk(vfs), let name else { return SQLITE_IOERR }
            result?.pointee = disk.exists(String(cString: name)) ? 1 : 0
            return SQLITE_OK
        }
        vfs.xFullPathname = { _, name, count, out in
            guard let name, let out else { return SQLITE_CANTOPEN }
            SimulatedDisk.copy(name, into: out, capacity: Int(count))
            return SQLITE_OK
        }
        vfs.xRandomness = { _, count, out in
            guard let out else { return 0 }
            for index in 0..<Int(count) { out[index] = CChar(truncatingIfNeeded: index &* 37 &+ 11) }
            return count
        }
        // Whoever waits for a lock waits for itself: time stands still meanwhile.
        vfs.xSleep = { _, microseconds in microseconds }
        vfs.xCurrentTime = { _, out in
            out?.pointee = 2_461_000.5
            return SQLITE_OK
        }
        return vfs
    }

    private static func copy(
        _ text: UnsafePointer<CChar>, into out: UnsafeMutablePointer<CChar>, capacity: Int
    ) {
        var index = 0
        while text[index] != 0, index < capacity - 1 {
            out[index] = text[index]
            index += 1
        }
        out[index] = 0
    }

    /// The same for every file of every disk; never freed.
    private nonisolated(unsafe) static let methods: UnsafeMutablePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: sqlite3_io_methods())
        methods.pointee.iVersion = 2
        addFileMethods(to: methods)
        addLocks(to: methods)
        addSharedMemory(to: methods)
        return methods
    }()

    private static func addFileMethods(to methods: UnsafeMutablePointer<sqlite3_io_methods>) {
        methods.pointee.xClose = { file in
            guard let handle = SimulatedDisk.handle(file), let slot = SimulatedDisk.slot(file),
                let pointer = slot.pointee
            else { return SQLITE_OK }
            handle.file.handles[ObjectIdentifier(handle)] = nil
            slot.pointee = nil
            Unmanaged<Handle>.fromOpaque(pointer).release()
            return SQLITE_OK
        }
        methods.pointee.xRead = { file, out, count, offset in
            guard let handle = SimulatedDisk.handle(file), let out, !handle.isUseless, !handle.disk.faults.failsReads
            else {
                return DiskFailure.read
            }
            let (count, offset) = (Int(count), Int(offset))
            let available = max(0, min(count, handle.file.seen.count - offset))
            handle.file.seen.withUnsafeBytes { bytes in
                guard available > 0, let base = bytes.baseAddress else { return }
                out.copyMemory(from: base + offset, byteCount: available)
            }
            guard available < count else { return SQLITE_OK }
            (out + available).initializeMemory(as: UInt8.self, repeating: 0, count: count - available)
            return DiskFailure.shortRead
        }
        methods.pointee.xWrite = { file, bytes, count, offset in
            guard let handle = SimulatedDisk.handle(file), let bytes, !handle.isUseless else {
                return DiskFailure.write
            }
            let copy = Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
            return handle.disk.write(copy, at: Int(offset), to: handle.file)
        }
        methods.pointee.xTruncate = { file, count in
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless else { return DiskFailure.write }
            return handle.disk.cut(handle.file, to: Int(count))
        }
        methods.pointee.xSync = { file, _ in
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless else { return DiskFailure.sync }
            return handle.disk.sync(handle.file)
        }
        methods.pointee.xFileSize = { file, out in
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless else { return SQLITE_IOERR }
            out?.pointee = Int64(handle.file.seen.count)
            return SQLITE_OK
        }
        methods.pointee.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        methods.pointee.xSectorSize = { _ in 4_096 }
        methods.pointee.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
    }

    private static func addLocks(to methods: UnsafeMutablePointer<sqlite3_io_methods>) {
        methods.pointee.xLock = { file, level in
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless else { return SQLITE_IOERR }
            let highest = handle.others.map(\.lock).max() ?? 0
            switch level {
            case SQLITE_LOCK_SHARED: if highest >= SQLITE_LOCK_PENDING { return SQLITE_BUSY }
            case SQLITE_LOCK_RESERVED: if highest >= SQLITE_LOCK_RESERVED { return SQLITE_BUSY }
            case SQLITE_LOCK_EXCLUSIVE:
                if highest >= SQLITE_LOCK_RESERVED { return SQLITE_BUSY }
                if highest >= SQLITE_LOCK_SHARED {
                    handle.lock = max(handle.lock, SQLITE_LOCK_PENDING)
                    return SQLITE_BUSY
                }
            default: break
            }
            handle.lock = max(handle.lock, level)
            return SQLITE_OK
        }
        methods.pointee.xUnlock = { file, level in
            guard let handle = SimulatedDisk.handle(file) else { return SQLITE_OK }
            handle.lock = min(handle.lock, level)
            return SQLITE_OK
        }
        methods.pointee.xCheckReservedLock = { file, out in
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless else { return SQLITE_IOERR }
            let holders = handle.file.handles.values
            out?.pointee = holders.contains { $0.lock >= SQLITE_LOCK_RESERVED } ? 1 : 0
            return SQLITE_OK
        }
    }

    private static func addSharedMemory(to methods: UnsafeMutablePointer<sqlite3_io_methods>) {
        methods.pointee.xShmMap = { file, region, byteCount, extends, out in
            out?.pointee = nil
            guard let handle = SimulatedDisk.handle(file), !handle.isUseless,
                Int(byteCount) == SimulatedDisk.regionByteCount
            else {
                return SQLITE_IOERR
            }
            if handle.memory == nil {
                let memory = handle.file.memory ?? SharedMemory()
                handle.file.memory = memory
                handle.memory = memory
                memory.users += 1
            }
            guard let memory = handle.memory else { return SQLITE_IOERR }
            while memory.regions.count <= Int(region) {
                guard extends != 0 else { return SQLITE_OK }
                let fresh = UnsafeMutableRawPointer.allocate(byteCount: SimulatedDisk.regionByteCount, alignment: 4_096)
                fresh.initializeMemory(as: UInt8.self, repeating: 0, count: SimulatedDisk.regionByteCount)
                memory.regions.append(fresh)
            }
            out?.pointee = memory.regions[Int(region)]
            return SQLITE_OK
        }
        methods.pointee.xShmLock = { file, offset, count, flags in
            guard let handle = SimulatedDisk.handle(file) else { return SQLITE_IOERR }
            let mask = ((UInt32(1) << UInt32(count)) - 1) << UInt32(offset)
            if flags & SQLITE_SHM_UNLOCK != 0 {
                handle.shared &= ~mask
                handle.exclusive &= ~mask
                return SQLITE_OK
            }
            guard !handle.isUseless else { return SQLITE_IOERR }
            let others = handle.others.filter { $0.memory === handle.memory }
            if others.contains(where: { $0.exclusive & mask != 0 }) { return SQLITE_BUSY }
            if flags & SQLITE_SHM_SHARED != 0 {
                handle.shared |= mask
                return SQLITE_OK
            }
            if others.contains(where: { $0.shared & mask != 0 }) { return SQLITE_BUSY }
            handle.exclusive |= mask
            return SQLITE_OK
        }
        methods.pointee.xShmBarrier = { _ in }
        methods.pointee.xShmUnmap = { file, _ in
            guard let handle = SimulatedDisk.handle(file), let memory = handle.memory else { return SQLITE_OK }
            handle.memory = nil
            handle.shared = 0
            handle.exclusive = 0
            memory.users -= 1
            if memory.users == 0, handle.file.memory === memory { handle.file.memory = nil }
            return SQLITE_OK
        }
    }
}
