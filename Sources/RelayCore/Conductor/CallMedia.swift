/// What a participant says about the way from an audio call to a video call.
public enum VideoWord: String, Hashable, Sendable, Codable, CaseIterable { case request, accept, decline }

/// Whether a room's call is an audio or a video call, and the wish that waits for an answer, as a pure value. An audio call
/// becomes a video call by one user's request and another's acceptance; never back. At most one request waits. In a group the
/// first acceptance decides; a request is declined when everybody else who is joined has declined it.
public struct CallMedia: Hashable, Sendable, Codable {
    public private(set) var media: RoomMedia
    public private(set) var request: Request?

    public struct Request: Hashable, Sendable, Codable {
        public let uid: String
        public let device: String
        /// Who has declined so far, in a group.
        fileprivate var declined: [String] = []
        init(uid: String, device: String) {
            self.uid = uid
            self.device = device
        }
    }

    public enum Effect: Hashable, Sendable {
        /// Nothing changes: it is as the asker wishes, or was said before.
        case nothing
        case requested
        case accepted
        case declined
        case withdrawn
    }

    /// Nothing of another user waits for an answer.
    public struct NoRequest: Error, Hashable, Sendable {}

    public init(_ media: RoomMedia) { self.media = media }

    /// - Parameter others: the joined users beside `uid`.
    public mutating func receive(
        _ word: VideoWord, from uid: String, _ device: String, others: Set<String>
    ) throws(NoRequest) -> Effect {
        if media == .video {
            // A late decline: the video is there, by the asker's and another's wish.
            if word == .decline { throw NoRequest() }
            return .nothing
        }
        guard let waiting = request else {
            switch word {
            case .request:
                request = Request(uid: uid, device: device)
                return .requested
            case .accept: throw NoRequest()
            case .decline: return .nothing
            }
        }
        switch word {
        case .request where waiting.uid == uid: return .nothing
        // Both ask: both want it.
        case .request, .accept:
            guard waiting.uid != uid else { throw NoRequest() }
            request = nil
            media = .video
            return .accepted
        case .decline where waiting.uid == uid:
            request = nil
            return .withdrawn
        case .decline:
            if !waiting.declined.contains(uid) { request?.declined.append(uid) }
            return concluded(joined: others.union([uid]))
        }
    }

    /// A user is out: a request ends with its asker, and may now be declined by all who are left.
    mutating func left(_ uid: String, joined: Set<String>) -> Effect {
        guard let waiting = request else { return .nothing }
        if waiting.uid == uid {
            request = nil
            return .withdrawn
        }
        request?.declined.removeAll { $0 == uid }
        return concluded(joined: joined)
    }

    private mutating func concluded(joined: Set<String>) -> Effect {
        guard let waiting = request else { return .nothing }
        let others = joined.subtracting([waiting.uid])
        guard !others.isEmpty, others.isSubset(of: waiting.declined) else { return .nothing }
        request = nil
        return .declined
    }
}
