/// What keeps one participant's media from passing while it is joined, each cause by itself: media passes where none of
/// them stands. Decided by the conductor, carried out by the engine; travels over the link as one byte.
public struct MediaGates: OptionSet, Hashable, Sendable, Codable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The participant muted its own audio.
    public static let ownAudio = MediaGates(rawValue: 1)
    public static let ownVideo = MediaGates(rawValue: 2)
    /// The server muted the participant's audio, or took away the right to send it.
    public static let serverAudio = MediaGates(rawValue: 4)
    public static let serverVideo = MediaGates(rawValue: 8)
    /// On hold: nothing passes from or to it.
    public static let held = MediaGates(rawValue: 16)
    /// The room's call is an audio call: no video passes from or to it.
    public static let videoClosed = MediaGates(rawValue: 32)
    /// The server took away the right to receive.
    public static let receiving = MediaGates(rawValue: 64)

    /// Every bit that means something.
    static let all: MediaGates = [
        .ownAudio, .ownVideo, .serverAudio, .serverVideo, .held, .videoClosed, .receiving,
    ]

    /// Why media of `kind` that the participant sends is dropped; nil: it passes.
    func dropReason(ofSent kind: MediaKind) -> DropReason? {
        if isEmpty { return nil }
        if contains(.held) { return .rtpHeld }
        if contains(kind == .audio ? .serverAudio : .serverVideo) { return .rtpMutedByServer }
        if contains(kind == .audio ? .ownAudio : .ownVideo) { return .rtpMuted }
        return kind == .video && contains(.videoClosed) ? .rtpVideoClosed : nil
    }

    /// Whether media of `kind` may be sent to the participant.
    func passesToReceiver(_ kind: MediaKind) -> Bool {
        isDisjoint(with: [.held, .receiving]) && (kind == .audio || !contains(.videoClosed))
    }
}
