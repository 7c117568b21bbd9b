import MediaRelay
import RTPCore
import RelaySimulation
import Testing

/// The disk under the simulation behaves like one: what was synced lasts, the rest may not.
@Suite("Simulated disk")
struct SimulatedDiskTests {
    private func open(_ disk: SimulatedDisk) throws -> Journal {
        try Journal(path: "/journal.sqlite", bootID: "b", vfs: disk.vfsName)
    }

    private func entry(_ seq: UInt64) -> JournalEntry {
        var entry = JournalEntry(turn: seq)
        entry.events = [
            JournalEvent(
                seq: seq, room: "r", timeMs: 1, type: "t",
                json: Array("{\"seq\":\(seq)}".utf8) + Array(repeating: 7, count: 3_000))
        ]
        return entry
    }

    @Test("what was stored is there when the power fails, and nothing half", arguments: 1...60 as ClosedRange<UInt64>)
    func powerLoss(seed: UInt64) throws {
        let disk = SimulatedDisk(seed: seed)
        var stored: UInt64 = 0
        do {
            let journal = try open(disk)
            disk.operationsUntilCrash = Int(seed) * 3
            for seq in 1...40 as ClosedRange<UInt64> {
                do { try journal.store([entry(seq)]) } catch { break }
                stored = seq
            }
            // Nothing is saved on the way: the journal is still open.
            withExtendedLifetime(journal) { disk.losePower() }
        }
        disk.restart()
        let found = try open(disk).contents().lastSeq
        #expect(found == stored || found == stored + 1, "seed \(seed)")
    }

    @Test(
        "what was stored is there when the process is killed in the midst of a write",
        arguments: 1...20 as ClosedRange<UInt64>)
    func kill(seed: UInt64) throws {
        let disk = SimulatedDisk(seed: seed)
        var stored: UInt64 = 0
        do {
            let journal = try open(disk)
            disk.operationsUntilCrash = Int(seed) * 5
            for seq in 1...60 as ClosedRange<UInt64> {
                do { try journal.store([entry(seq)]) } catch { break }
                stored = seq
            }
            withExtendedLifetime(journal) { disk.killProcess() }
        }
        disk.restart()
        let found = try open(disk).contents().lastSeq
        #expect(found == stored || found == stored + 1, "seed \(seed)")
    }

    @Test("a disk that lies about syncs loses what was stored")
    func lies() throws {
        let losses = try (1...20).count { seed in
            let disk = SimulatedDisk(seed: UInt64(seed))
            do {
                let journal = try open(disk)
                disk.liesAboutSyncs = true
                for seq in 1...10 as ClosedRange<UInt64> { try journal.store([entry(seq)]) }
                // Nothing is saved on the way: the journal is still open.
                withExtendedLifetime(journal) { disk.losePower() }
            }
            disk.restart()
            guard let journal = try? open(disk), let contents = try? journal.contents() else { return true }
            return contents.lastSeq < 10
        }
        #expect(losses >= 5)
    }

    @Test("a full disk refuses, and takes the same again when there is room")
    func full() throws {
        let disk = SimulatedDisk(seed: 1)
        let journal = try open(disk)
        try journal.store([entry(1)])
        disk.faults.isFull = true
        #expect(throws: SQLiteError.self) { try journal.store([entry(2)]) }
        disk.faults = .none
        try journal.store([entry(2)])
        #expect(try journal.contents().lastSeq == 2)
    }

    @Test(
        "a failed sync is a failed commit; once it works the same is stored for good",
        arguments: 1...20 as ClosedRange<UInt64>)
    func failedSync(seed: UInt64) throws {
        let disk = SimulatedDisk(seed: seed)
        do {
            let journal = try open(disk)
            try journal.store([entry(1)])
            disk.faults.failsSyncs = true
            #expect(throws: SQLiteError.self) { try journal.store([entry(2)]) }
            disk.faults = .none
            try journal.store([entry(2)])
            // Nothing is saved on the way: the journal is still open.
            withExtendedLifetime(journal) { disk.losePower() }
        }
        disk.restart()
        #expect(try open(disk).contents().lastSeq == 2)
    }
}
