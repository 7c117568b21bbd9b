import RTPCore

/// What came of a participant's offer: big, and the same from the answer on but for ICE restarts and gates. So the journal
/// keeps it apart from the room's record, which changes with every decision.
public struct SessionRecord: Hashable, Sendable, Codable {
    /// What its worker was told; `remoteICE` and `localICE` are those of the current ICE generation.
    public internal(set) var transport: TransportConfiguration
    /// Tells the offer that it came with from another one.
    public let offer: OfferIdentity
    /// The SDP answer, for the same offer again.
    public let answer: String
}

/// One device of one user in a room.
public struct ParticipantRecord: Hashable, Sendable, Codable {
    public let id: ParticipantID
    public let uid: String
    public let device: String
    public internal(set) var lifecycle: ParticipantLifecycle
    /// Not in its own JSON: see `SessionRecord`.
    public internal(set) var session: SessionRecord
    /// 1 at the answer, one more after each ICE restart: the session's ETag.
    public internal(set) var generation: Int
    public let videoUnsupported: Bool
    public let createdAtMs: Int64
    public internal(set) var preparedAtMs: Int64?
    public internal(set) var joinedAtMs: Int64?
    /// Connecting or prepared expiry; nil once joined.
    public internal(set) var deadline: Instant?
    public internal(set) var statistics: TransportStatistics
    public internal(set) var notes: LegNotes?
    /// Mute, hold and rights.
    var media: ParticipantMedia {
        get { otherMedia ?? ParticipantMedia() }
        set { otherMedia = newValue == ParticipantMedia() ? nil : newValue }
    }
    // Nil is what everybody starts with, so that records from before this are read as well.
    var otherMedia: ParticipantMedia?

    /// Who is in its slots, as its worker told last.
    var slots: [SlotOccupant] {
        get { otherSlots ?? [] }
        set { otherSlots = newValue.isEmpty ? nil : newValue }
    }
    /// What it wishes for its slots.
    var slotRequests: [SlotRequest] {
        get { otherSlotRequests ?? [] }
        set { otherSlotRequests = newValue.isEmpty ? nil : newValue }
    }
    // Nil is what everybody starts with, so that records from before these are read as well.
    var otherSlots: [SlotOccupant]?
    var otherSlotRequests: [SlotRequest]?

    /// What its worker was told.
    public internal(set) var transport: TransportConfiguration {
        get { session.transport }
        set { session.transport = newValue }
    }
    /// On hold by its own wish.
    public var isHeld: Bool { media.isHeld }
    public var handle: ParticipantHandle { transport.participant }
    var etag: String { String(generation) }

    public var view: ParticipantView {
        var view = ParticipantView(
            id: id, uid: uid, device: device, state: lifecycle.state, createdAtMs: createdAtMs)
        view.isInterrupted = lifecycle.isInterrupted
        view.sends = MediaKind.allCases.filter { kind in
            transport.sections.contains { $0.kind == kind && $0.clientSends }
        }
        view.receives = MediaKind.allCases.filter { kind in
            transport.sections.contains { $0.kind == kind && $0.clientReceives }
        }
        view.videoUnsupported = videoUnsupported
        view.media = media
        view.preparedAtMs = preparedAtMs
        view.joinedAtMs = joinedAtMs
        view.statistics = statistics
        view.quality = notes?.quality
        return view
    }
}

extension ParticipantRecord {
    /// Where a decoder of a `RoomRecord` finds the sessions: `[ParticipantID: SessionRecord]`.
    public static let sessionsKey: CodingUserInfoKey = {
        guard let key = CodingUserInfoKey(rawValue: "sessions") else { preconditionFailure("a key has any name") }
        return key
    }()

    private enum CodingKeys: String, CodingKey {
        case id, uid, device, lifecycle, generation, videoUnsupported, createdAtMs, preparedAtMs, joinedAtMs, deadline
        case statistics, notes, otherMedia, otherSlots, otherSlotRequests
    }

    /// Records from before sessions were kept apart have theirs within.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        id = try fields.decode(ParticipantID.self, forKey: .id)
        uid = try fields.decode(String.self, forKey: .uid)
        device = try fields.decode(String.self, forKey: .device)
        lifecycle = try fields.decode(ParticipantLifecycle.self, forKey: .lifecycle)
        generation = try fields.decode(Int.self, forKey: .generation)
        videoUnsupported = try fields.decode(Bool.self, forKey: .videoUnsupported)
        createdAtMs = try fields.decode(Int64.self, forKey: .createdAtMs)
        preparedAtMs = try fields.decodeIfPresent(Int64.self, forKey: .preparedAtMs)
        joinedAtMs = try fields.decodeIfPresent(Int64.self, forKey: .joinedAtMs)
        deadline = try fields.decodeIfPresent(Instant.self, forKey: .deadline)
        statistics = try fields.decode(TransportStatistics.self, forKey: .statistics)
        notes = try fields.decodeIfPresent(LegNotes.self, forKey: .notes)
        otherMedia = try fields.decodeIfPresent(ParticipantMedia.self, forKey: .otherMedia)
        otherSlots = try fields.decodeIfPresent([SlotOccupant].self, forKey: .otherSlots)
        otherSlotRequests = try fields.decodeIfPresent([SlotRequest].self, forKey: .otherSlotRequests)
        let sessions = decoder.userInfo[Self.sessionsKey] as? [ParticipantID: SessionRecord]
        session = try sessions?[id] ?? SessionRecord(from: decoder)
    }
}
