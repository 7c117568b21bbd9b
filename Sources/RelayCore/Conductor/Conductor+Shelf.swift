import RTPCore

// Ended rooms that a restart leaves in the journal until somebody asks for one: 20,000 records take seconds to read, and
// those few that are looked at a tenth of a millisecond each.

/// What the conductor has to know of an ended room whose record stays in the journal.
public struct ShelvedRoom: Hashable, Sendable {
    public var id: RoomID
    public var handle: RoomHandle
    public var ordinal: UInt64
    /// Milliseconds since the Unix epoch.
    public var endedAtMs: Int64
    public init(id: RoomID, handle: RoomHandle, ordinal: UInt64, endedAtMs: Int64) {
        self.id = id
        self.handle = handle
        self.ordinal = ordinal
        self.endedAtMs = endedAtMs
    }
}

/// Rooms on the shelf, by id and by handle.
struct Shelf {
    private var rooms: [RoomID: ShelvedRoom] = [:]
    private var ids: [RoomHandle: RoomID] = [:]

    var count: Int { rooms.count }
    var all: some Collection<ShelvedRoom> { rooms.values }

    subscript(id: RoomID) -> ShelvedRoom? { rooms[id] }
    subscript(handle: RoomHandle) -> ShelvedRoom? { ids[handle].flatMap { rooms[$0] } }

    mutating func put(_ room: ShelvedRoom) {
        precondition(rooms.updateValue(room, forKey: room.id) == nil, "two rooms with one id")
        ids[room.handle] = room.id
    }

    mutating func remove(_ room: ShelvedRoom) {
        rooms[room.id] = nil
        ids[room.handle] = nil
    }
}

extension RoomRecord {
    /// Nothing will change it any more: it has ended, and the last figures of all its legs are in, or nobody will tell them.
    public var isSettled: Bool {
        status == .ended && recording == nil && (history?.legs.allSatisfy { $0.isFinal || $0.worker == nil } ?? true)
    }
}

extension Conductor {
    /// The room with this id, taken from the shelf where it lies there; nil for none, and for one whose record the journal
    /// can not read.
    func held(_ id: RoomID) -> ConductedRoom? {
        if let room = rooms[id] { return room }
        return shelf[id].flatMap { take($0) }
    }

    /// The same by its handle.
    func held(_ handle: RoomHandle) -> ConductedRoom? {
        if let room = roomsByHandle[handle] { return room }
        return shelf[handle].flatMap { take($0) }
    }

    private func take(_ shelved: ShelvedRoom) -> ConductedRoom? {
        guard let record = unshelve(shelved) else { return nil }
        precondition(
            record.id == shelved.id && record.handle == shelved.handle && record.isSettled,
            "the journal gave another room than \(shelved.id)")
        shelf.remove(shelved)
        let room = ConductedRoom(record)
        rooms[record.id] = room
        roomsByHandle[record.handle] = room
        return room
    }

    /// Puts ended rooms on the shelf at a restart; they are listed and counted as if they were held.
    func shelve(_ room: ShelvedRoom) {
        shelf.put(room)
        listing.append(room.handle, ordinal: room.ordinal)
        tally.endedRooms += 1
    }
}
