import RTPCore

/// Every bound of the engine, with its unit and its reason. API limits are configured elsewhere (API.md, "Manners").
public enum Limits {
    /// Addresses a participant may have passed a check from (T19); the oldest unvalidated one makes room.
    static let pathsPerTransport = 8
    /// SSRCs a participant may send with (T54): audio, video, RTX and some changes of SSRC.
    static let sourcesPerTransport = 16
    /// As many as nearly all use: sound, a picture and its repairs, and one that takes another's place.
    static let nearSources = 4
    /// SSRCs whose receiver reference times are answered: one for each of a client's kinds, and some to spare.
    static let referenceTimesPerTransport = 4
    /// Simulcast streams of one track.
    static let layersPerTrack = 3
    /// Accepted m-lines a transport may have.
    public static let sectionsPerTransport = 64
    /// A datagram we make is never longer than this (T108): payload of an IPv6 packet at the smallest usual path MTU.
    static let datagramByteCount = 1_200
    /// Failed checks per source and second that are worth hashing (T21).
    static let failedChecksPerSecond: Int64 = 50
    /// Datagrams with DTLS records per transport and second after the handshake.
    static let recordsPerSecond = 100
    /// Handshake requests that wait for the handshaker thread; more are dropped and repeated by the client.
    static let pendingHandshakeRequests = 4_096
    /// Tries per second to verify a packet of an SSRC never seen before.
    static let unknownSourceTriesPerSecond = 200
    /// Packets per second from one participant (T56); a 4 Mbit/s video is about 450.
    static let packetsPerSecond = 2_000
    /// Bytes sent to a path before it is validated, per byte received from it (RFC 9000 §8.1).
    static let unvalidatedAmplification = 3
    /// How often one packet may be repeated for one receiver (T55).
    static let repeatsPerPacket = 7

    /// Repairs per slot and second (T55): a fifth of what a 4 Mbit/s video has in packets.
    static let repairsPerSecond = 100
    /// And at least, where the path is full.
    static let leastRepairs = 5
    /// For how long packets are kept: time to find out and to answer beside three round trips of the slowest receiver, a
    /// request that is lost included; within these bounds.
    static let repairDelay = Interval.milliseconds(150)
    static let shortestHistory = Interval.milliseconds(400)
    static let longestHistory = Interval.seconds(2)
    /// A repair with everything around it.
    static let repairBits = 9_600
    /// So long after a key frame receivers may still ask for what was lost before it.
    static let keyFrameEcho = Interval.milliseconds(500)
    /// A picture that repair can not mend waits no longer than this for its path to become free.
    static let longestBroken = Interval.seconds(1)
    /// Key frames that the relay asks for because of one receiver's broken picture come no faster.
    static let mendingSpacing = Interval.seconds(1)
    /// Over how long what goes to one receiver is measured.
    static let sentRateWindow = Interval.milliseconds(100)

    /// How long an address stays its session's after the last authentic packet: longer than between two of our checks, so
    /// that nobody takes a living client's address by a check sent in its name.
    static let addressHold = Interval.seconds(6)
    static let checkIntervalJoined = Interval.seconds(1)
    static let checkIntervalPrepared = Interval.seconds(5)
    /// Unanswered checks are repeated after these (CALLS.md, "Liveness").
    static let checkRetries: [Interval] = [.milliseconds(250), .milliseconds(500), .seconds(1)]
    static let interruptedJoined = Interval.seconds(5)
    static let interruptedPrepared = Interval.seconds(15)
    static let lost = Interval.seconds(30)
    /// The selected path moves at most once in this time (T18).
    static let pathSwitchInterval = Interval.seconds(1)
    /// So long nothing came on the selected path before another one on which the client is heard takes its place without
    /// being nominated: more than two of our checks without an answer.
    static let pathSilenceJoined = Interval.seconds(3)
    static let pathSilencePrepared = Interval.seconds(12)
    /// A path that was silent for so long when media left it had lost what was sent to it.
    static let deadPath = Interval.milliseconds(300)
    /// Sender and receiver reports (RFC 3550 §6.2 allows less than 5 s for a small session).
    static let reportInterval = Interval.seconds(1)
    /// transport-cc feedback (EXPERIMENTS.md B: accepted by all clients that negotiate it): at the latest so long after the first
    /// packet that it tells of. From `feedbackLead` before on it goes along with media to the same client, some 45 ms on average.
    static let transportFeedbackInterval = Interval.milliseconds(60)
    static let feedbackLead = Interval.milliseconds(20)
    /// Clients that it goes along to in one receive batch; to others it goes by itself.
    static let feedbackRiders = 64
    /// The same while only audio comes: there is no rate to steer, and feedback for two packets costs as much as for twenty.
    static let audioFeedbackInterval = Interval.milliseconds(200)
    /// How often who is heard and seen in a group is chosen anew, while somebody speaks.
    static let choiceInterval = Interval.milliseconds(100)
    /// And for this long after the last word: longer than `SpeakerSelection.hold`.
    static let choiceAfterSpeech = Interval.seconds(3)
    /// How often it is told in a second who is in a receiver's slots.
    static let slotNewsPerSecond: Int64 = 4
    /// A camera of which nothing came for this long shows nothing. Pictures that stand still come once a second.
    static let pictureAbsence = Interval.seconds(5)
    /// `SpeechActivity.loudness` above which a member speaks.
    static let speakingLoudness = 5
    /// Decoders on one worker that hear levels which senders do not tell, 18 KB each.
    static let levelProbes = 256
    /// Packets that they decode in a second, all together: a sender's are 19. At 30 µs each, 3 % of a core.
    static let probedPacketsPerSecond = 1_000
    static let statisticsInterval = Interval.seconds(2)
    /// After an ICE restart the old credentials are good from the selected address for this long at most (T20).
    static let oldCredentialsLifetime = Interval.seconds(30)
    /// Numbers that may be missing between two packets of a source; beyond, the outgoing numbers go on without a gap, since a
    /// step near 2^15 would cost the receiver its rollover count (RFC 3711 §3.3.1).
    static let longestJump: UInt64 = 8_192
    /// What a client without transport-cc is told by REMB: high enough never to hold a call back.
    static let openREMB: UInt64 = 5_000_000
    /// What a sender is thought to use at least if it may, bits per second: a small picture and sound.
    static let leastWanted = 1_000_000
    /// A raised limit is told at most this often; a lower one at once.
    static let holdSpacing = Interval.milliseconds(200)
    /// How often the choice of layers is looked at.
    static let layerInterval = Interval.milliseconds(200)
    /// What a packet costs beside its payload: IPv4, UDP, RTP with its extensions, tag.
    static let packetOverhead = 70
    /// What a receiver's path keeps free for each slot of sound, bits per second.
    static let audioReserve = 40_000
    /// A RED payload is never longer than this, so that header, extensions and tag fit into a datagram beside it.
    static let redPayloadByteCount = 1_000
    /// What one earlier packet of sound in each packet costs of a receiver's path, bits per second.
    static let redBlockRate = 40_000
    /// What a sender of simulcast may use beside its pictures, bits per second.
    static let senderReserve = 80_000
    /// A stream is not sent any more only when nobody has wanted it for so long.
    static let layerRest = Interval.seconds(10)
    /// A stream has stopped when so many pictures of the others came since its last one, and no sooner than after this time.
    static let missedPictures: UInt64 = 8
    static let shortestStall = Interval.milliseconds(200)
    /// How long a slot waits for a key frame before it takes what comes.
    /// How long a slot waits for a picture from which on upper temporal layers may pass.
    static let risePatience = Interval.seconds(2)
    static let keyFramePatience = Interval.seconds(5)
    /// Between two times of a prompt.
    static let longestPause = Interval.seconds(600)
    /// Packets of one probe at most.
    static let probePackets = 48
}
