import RelayCore

/// Answers how a room ended whose record is forgotten, from the journal's file by a connection of its own: asked on the control
/// thread, and only when a room is created under an id that is not held.
package final class EndedRooms {
    private let select: SQLiteStatement
    private let selectRecord: SQLiteStatement
    private let database: SQLiteDatabase
    private let log: Log

    /// `path`: the file of a journal that was opened before.
    package init(path: String, vfs: String? = nil, log: Log) throws(SQLiteError) {
        self.log = log
        database = try SQLiteDatabase(path: path, vfs: vfs)
        select = try database.prepare("SELECT outcome FROM ended WHERE id = ?")
        selectRecord = try database.prepare("SELECT record FROM roomRecords WHERE ordinal = ?")
    }

    /// The record of a settled room, which has nobody in it any more; nil, said in the log, when it can not be read.
    package func record(of room: ShelvedRoom) -> RoomRecord? {
        do throws(SQLiteError) {
            try selectRecord.bind(.integer(Int64(clamping: room.ordinal)))
            defer { selectRecord.reset() }
            guard try selectRecord.step() else { return nil }
            let stored = StoredRoom(record: selectRecord.bytes(0))
            guard let record = RecordCoding.decode(stored, log: log) else { return nil }
            guard record.id == room.id, record.handle == room.handle, record.isSettled else {
                log.write(.error, "the journal has another record in the place of room \(room.id)'s")
                return nil
            }
            return record
        } catch {
            log.write(.error, "the record of room \(room.id) can not be read: \(error)")
            return nil
        }
    }

    /// Nil for an id that no ended room had. An unreadable journal counts as that: it has been told elsewhere.
    package func outcome(of room: RoomID) -> RoomOutcome? {
        do throws(SQLiteError) {
            try select.bind(.text(room.text))
            guard try select.step() else { return nil }
            let outcome = RoomOutcome(rawValue: select.text(0))
            // To its end, so that no read transaction stays open.
            while try select.step() {}
            return outcome
        } catch {
            return nil
        }
    }
}
