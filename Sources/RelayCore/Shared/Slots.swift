// The vocabulary of slots: the m-lines on which a client receives (API.md). Decided by the engine, which hears who speaks;
// wished for by clients, remembered and told by the conductor.

/// What a participant wishes for one of its slots.
public struct SlotWish: Hashable, Sendable, Codable {
    /// The slot: index into the transport's sections.
    public var section: UInt8
    /// Who is to be seen there whenever it is in the room; nil: whom the engine chooses.
    public var pinned: ParticipantHandle?
    /// The picture's height that is worth sending, in pixels; 0: any.
    public var wantedHeight: UInt16
    public init(section: UInt8, pinned: ParticipantHandle? = nil, wantedHeight: UInt16 = 0) {
        self.section = section
        self.pinned = pinned
        self.wantedHeight = wantedHeight
    }
}

/// Who is in one slot. Free slots are not named.
public struct SlotOccupant: Hashable, Sendable, Codable {
    /// The slot: index into the receiver's sections.
    public var section: UInt8
    /// Whose media it carries.
    public var sender: ParticipantHandle
    public init(section: UInt8, sender: ParticipantHandle) {
        self.section = section
        self.sender = sender
    }
}
