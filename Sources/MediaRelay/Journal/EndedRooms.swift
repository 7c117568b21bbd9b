import RelayCore

/// Answers how a room ended whose record is forgotten, from the journal's file by a connection of its own: asked on the control
/// thread, and only when a room is created under an id that is not held.
final class EndedRooms {
    private let select: SQLiteStatement
    private let database: SQLiteDatabase

    /// `path`: the file of a journal that was opened before.
    init(path: String) throws(SQLiteError) {
        database = try SQLiteDatabase(path: path)
        select = try database.prepare("SELECT outcome FROM ended WHERE id = ?")
    }

    /// Nil for an id that no ended room had. An unreadable journal counts as that: it has been told elsewhere.
    func outcome(of room: RoomID) -> RoomOutcome? {
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
