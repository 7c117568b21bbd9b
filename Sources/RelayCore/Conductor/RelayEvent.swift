/// The kinds of event in the log. The raw value is the `type` on the wire (CALLS.md, "Events").
public enum RelayEventType: String, Sendable, Codable, CaseIterable {
    case roomCreated = "room.created"
    case roomClosed = "room.closed"
    case roomWarning = "room.warning"
    case callInitiated = "call.initiated"
    case callRinging = "call.ringing"
    case callAnswered = "call.answered"
    case calleeEnded = "callee.ended"
    case callEnded = "call.ended"
    case participantConnecting = "participant.connecting"
    case participantPrepared = "participant.prepared"
    case participantJoined = "participant.joined"
    case participantLeft = "participant.left"
    case participantReplaced = "participant.replaced"
    case participantInterrupted = "participant.interrupted"
    case participantRecovered = "participant.recovered"
    case participantPathChanged = "participant.path-changed"
    case participantQuality = "participant.quality"
    case participantMedia = "participant.media"
    case participantChanged = "participant.changed"
    case mediaRequested = "media.requested"
    case mediaChanged = "media.changed"
    case slotChanged = "slot.changed"
    case speakerChanged = "speaker.changed"
    case promptStarted = "prompt.started"
    case promptEnded = "prompt.ended"
    case recordingStarted = "recording.started"
    case recordingEnded = "recording.ended"
    case nodeStarted = "node.started"
    case nodeDraining = "node.draining"
    case nodeDrained = "node.drained"
    case nodeUndrained = "node.undrained"
    case eventsTruncated = "events.truncated"
}

/// One entry of the ordered log. `seq` is gapless over the node, `roomSeq` over the room (0 where there is no room).
public struct RelayEvent: Hashable, Sendable {
    public var seq: UInt64
    public var roomSeq: UInt64
    public var type: RelayEventType
    /// Milliseconds since the Unix epoch.
    public var timeMs: Int64
    public var roomID: RoomID?
    public var uid: String?
    public var device: String?
    public var participantID: ParticipantID?
    /// From the closed set of reasons in CALLS.md.
    public var reason: String?
    public var data: [JSONValue.Field]

    public init(
        seq: UInt64, roomSeq: UInt64, type: RelayEventType, timeMs: Int64, roomID: RoomID?, uid: String?,
        device: String?, participantID: ParticipantID?, reason: String?, data: [JSONValue.Field]
    ) {
        self.seq = seq
        self.roomSeq = roomSeq
        self.type = type
        self.timeMs = timeMs
        self.roomID = roomID
        self.uid = uid
        self.device = device
        self.participantID = participantID
        self.reason = reason
        self.data = data
    }
}
