import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

@Suite("Journal thread") struct JournalThreadTests {
    private let file = JournalFile()

    private final class Silent: EventSink {
        func write(_ stream: UInt64, _ bytes: [UInt8]) {}
        func close(_ stream: UInt64) {}
        func answer(_ request: UInt64, _ json: [UInt8]) {}
    }

    private func byteCount(_ path: String) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
    }

    @Test("the write-ahead log goes back into the database while commits go on") func checkpoints() throws {
        let journal = try Journal(path: file.path, bootID: "b")
        let committed = try Mailbox<UInt64>(capacity: 10_000)
        let failed = try Mailbox<String>(capacity: 100)
        let thread = try JournalThread(
            journal: journal, feed: EventFeed(journal: journal, lastSeq: 0, sink: Silent()), retention: .init(),
            onCommit: { committed.post($0) }, onFailure: { failed.post($0) })
        try thread.start()
        let text = [UInt8](repeating: UInt8(ascii: " "), count: 2_000)
        let turns: UInt64 = 300
        var batch: [UInt64] = []
        let poller = try Poller()
        try poller.add(committed.wakeUp.descriptor, token: 1, for: .reading)
        for turn in 1...turns {
            var entry = JournalEntry(turn: turn)
            entry.events = (1...100).map { index in
                let seq = (turn - 1) * 100 + UInt64(index)
                return JournalEvent(seq: seq, room: nil, timeMs: 1, type: "t", json: text)
            }
            thread.post(.store(entry))
            // One transaction each, as a busy relay makes them.
            while batch.last != turn {
                _ = poller.wait(until: MonotonicClock.now() + .seconds(60), now: MonotonicClock.now())
                committed.wakeUp.clear()
                committed.take(into: &batch)
            }
        }
        let log = try byteCount(file.path + "-wal")
        let database = try byteCount(file.path)
        thread.stop()
        var failures: [String] = []
        failed.take(into: &failures)
        #expect(failures.isEmpty)
        // 60 MB went through it.
        #expect(log < 20_000_000, "\(log) bytes of log")
        #expect(database > 30_000_000, "\(database) bytes of database")
        #expect(try Journal(path: file.path, bootID: "b").contents().lastSeq == turns * 100)
    }
}
