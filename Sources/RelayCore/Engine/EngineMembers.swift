import RTPCore

// What the engine knows of rooms and participants that no packet touches.

/// The members of one room on this worker.
struct EngineRoom {
    var handle: RoomHandle
    var isPeer: Bool
    var members: [Int32]
    /// Who is heard and seen; nil in a peer room, where everybody is.
    var group: GroupFloor?
    /// What is recorded of it; nil: nothing.
    var recording: RecordedRoom?
}

/// What a transport has that no packet touches.
final class TransportDetails {
    let configuration: TransportConfiguration
    var localICE: ICECredentials
    var remoteICE: ICECredentials
    /// The credentials before an ICE restart, good from the selected address until the first new check or this instant.
    var oldICE: (local: ICECredentials, remote: ICECredentials, until: Instant)?
    /// Tie-breaker of our checks; any value will do, since we never ask for a role (RFC 8445 §7.3.1.1).
    let tieBreaker: UInt64

    init(configuration: TransportConfiguration, tieBreaker: UInt64) {
        self.configuration = configuration
        localICE = configuration.localICE
        remoteICE = configuration.remoteICE
        self.tieBreaker = tieBreaker
    }
}

extension MediaEngine {
    /// Bytes of the tables that one transport with so many tracks and slots has to itself, if it sends with few SSRCs.
    static func tableByteCount(tracks: Int, slots: Int) -> Int {
        MemoryLayout<Transport>.stride + Limits.pathsPerTransport * MemoryLayout<Path>.stride
            + Limits.nearSources * MemoryLayout<Source>.stride
            + Limits.sourcesPerTransport * (MemoryLayout<UInt32>.stride + MemoryLayout<RTCPContext>.stride)
            + Limits.referenceTimesPerTransport * MemoryLayout<ReferenceTime>.stride
            + tracks * MemoryLayout<Track>.stride + slots * MemoryLayout<Subscription>.stride
    }
}
