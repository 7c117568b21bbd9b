import Foundation
import RTPCore
import RelayCore
import Testing

@testable import MediaRelay

/// A journal that is damaged: each damage costs the room that it is in, and nothing else.
@Suite("Journal: damaged records") struct RestoredRoomsTests {
    private let file = JournalFile()
    private let log = Log(level: .error, format: .text)

    private func contents(_ rooms: [[UInt8]], settled: [ShelvedRoom] = []) -> JournalContents {
        var contents = JournalContents(
            lastSeq: 0, rooms: rooms.map { StoredRoom(record: $0) }, keys: [], workers: [])
        contents.settledRooms = settled
        return contents
    }

    /// `record` as it is stored, with another value of the first field of a name.
    private func damaged(_ record: RoomRecord, _ field: String, _ value: String) throws -> [UInt8] {
        let text = String(decoding: RecordCoding.encode(record), as: UTF8.self)
        let name = try #require(text.range(of: "\"\(field)\":"))
        let end = try #require(text[name.upperBound...].firstIndex { $0 == "," || $0 == "}" })
        return Array((text[..<name.upperBound] + value + text[end...]).utf8)
    }

    @Test(
        "a number that no clock and no count gives costs its room",
        arguments: [
            ("createdAtMs", "-1"), ("createdAtMs", "9223372036854775807"), ("ordinal", "0"),
            ("ordinal", "18446744073709551615"), ("nextRoomSeq", "18446744073709551615"), ("presentCount", "7"),
            ("nanoseconds", "9223372036854775807"), ("nanoseconds", "-9223372036854775808"), ("status", "\"ended\""),
        ])
    func numbers(field: String, value: String) throws {
        let bad = try damaged(roomRecord("bad"), field, value)
        // Another room's, with the place in the order that it would have beside it.
        let good = try damaged(roomRecord("good"), "ordinal", "2")
        let record = try #require(RecordCoding.decode(StoredRoom(record: good), log: log))
        let distinct = try damaged(record, "handle", "{\"value\":5")
        let restored = RestoredRooms(contents([bad, distinct]), log: log)
        #expect(restored.rooms.map(\.id.text) == ["good"])
    }

    @Test("a room that stands there twice is there once")
    func twice() throws {
        let record = RecordCoding.encode(try roomRecord("r"))
        #expect(RestoredRooms(contents([record, record]), log: log).rooms.count == 1)
    }

    @Test("ended rooms with a damaged row are left out, those in another's place as well")
    func endedRooms() throws {
        func row(_ id: String, handle: UInt64, ordinal: UInt64, endedAtMs: Int64 = 1_000) throws -> ShelvedRoom {
            ShelvedRoom(
                id: try #require(RoomID(id)), handle: RoomHandle(handle), ordinal: ordinal, endedAtMs: endedAtMs)
        }
        let rows = [
            try row("a", handle: 1, ordinal: 1), try row("b", handle: 1, ordinal: 2),
            try row("c", handle: 3, ordinal: 1), try row("a", handle: 4, ordinal: 4),
            try row("d", handle: 5, ordinal: 0), try row("e", handle: 6, ordinal: 6, endedAtMs: .min),
            try row("f", handle: 7, ordinal: 7),
        ]
        #expect(RestoredRooms(contents([], settled: rows), log: log).shelved.map(\.id.text) == ["a", "f"])
    }

    @Test("another room's record in the place of an ended room's is not it")
    func strangeRecord() throws {
        let room = try roomRecord("r", isEnded: true)
        let journal = try Journal(path: file.path, bootID: "b")
        var entry = JournalEntry(turn: 1)
        entry.rooms = [JournalRoom(id: room.id.text, record: room)]
        try journal.store([entry])
        let shelved = try #require(try journal.contents().settledRooms.first)
        let ended = try EndedRooms(path: file.path, log: log)
        #expect(ended.record(of: shelved) == room)
        let other = String(decoding: RecordCoding.encode(try roomRecord("s", isEnded: true)), as: UTF8.self)
        try SQLiteDatabase(path: file.path).execute("UPDATE roomRecords SET record = CAST('\(other)' AS BLOB)")
        #expect(ended.record(of: shelved) == nil)
    }

    @Test("an idempotency key of no time is forgotten")
    func keys() {
        let text = #"{"keyID":"k","key":"a","createdAtMs":-5,"digest":"d"}"#
        #expect(RecordCoding.decodeKey(Array(text.utf8), log: log) == nil)
        let good = #"{"keyID":"k","key":"a","createdAtMs":5,"digest":"d"}"#
        #expect(RecordCoding.decodeKey(Array(good.utf8), log: log) != nil)
    }
}
