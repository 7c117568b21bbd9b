import RelayCore

/// What a conductor goes on from: of what the journal holds, the rooms whose records can be read and gone on from, each
/// once. A row that is damaged, or that stands where another one already is, costs its own room, said in the log.
package struct RestoredRooms {
    package private(set) var rooms: [RoomRecord] = []
    package private(set) var shelved: [ShelvedRoom] = []
    private var ids: Set<RoomID> = []
    private var handles: Set<RoomHandle> = []
    private var ordinals: Set<UInt64> = []
    private var participants: Set<ParticipantHandle> = []

    package init(_ contents: JournalContents, log: Log) {
        for room in contents.rooms.compactMap({ RecordCoding.decode($0, log: log) }) {
            let inside = room.participants.map(\.handle)
            guard participants.isDisjoint(with: inside), isNew(room.id, room.handle, room.ordinal) else {
                log.write(.error, "the journal has room \(room.id), or who is in it, twice; one is left out")
                continue
            }
            participants.formUnion(inside)
            rooms.append(room)
        }
        for room in contents.settledRooms {
            guard room.isSound, isNew(room.id, room.handle, room.ordinal) else {
                log.write(.error, "the journal's row of ended room \(room.id) is damaged and left out")
                continue
            }
            shelved.append(room)
        }
    }

    private mutating func isNew(_ id: RoomID, _ handle: RoomHandle, _ ordinal: UInt64) -> Bool {
        guard !ids.contains(id), !handles.contains(handle), !ordinals.contains(ordinal) else { return false }
        ids.insert(id)
        handles.insert(handle)
        ordinals.insert(ordinal)
        return true
    }
}
