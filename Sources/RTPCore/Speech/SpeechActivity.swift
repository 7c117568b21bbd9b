/// How much one source speaks, from the audio levels of its packets (RFC 6464): a quick score that follows a
/// syllable and a slow one that follows a sentence. 24 bytes, integers only: it is updated on the packet path.
@frozen public struct SpeechActivity: Hashable, Sendable {
    /// Levels quieter than this (in −dBov) are silence, whatever the voice bit says.
    public static let silence: UInt8 = 65
    /// Weights of a 20 ms packet: 1/8 gives 160 ms, 1/64 gives 1.3 s.
    private static let quickShift: Int32 = 3
    private static let slowShift: Int32 = 6
    private static let unit: Int32 = 1 << 16
    /// A source that sends nothing (DTX, mute, loss) falls silent after this.
    public static let absence = Interval.milliseconds(300)

    private var quick: Int32 = 0
    private var slow: Int32 = 0
    private var lastPacket = Instant(nanoseconds: -1_000_000_000)

    public init() {}

    /// One packet's level. `level`: −dBov, 0 (loudest) … 127 (silence). `isVoice`: the extension's V bit; true
    /// where the sender does not tell.
    @inlinable public mutating func received(level: UInt8, isVoice: Bool, at now: Instant) {
        let loudness = level >= Self.silence || !isVoice ? 0 : Int32(Self.silence - level)
        update(loudness, at: now)
    }

    @usableFromInline mutating func update(_ loudness: Int32, at now: Instant) {
        if now - lastPacket > Self.absence {
            // What was said before a pause counts half.
            quick = 0
            slow /= 2
        }
        lastPacket = now
        let target = loudness * Self.unit
        quick += (target - quick) >> Self.quickShift
        slow += (target - slow) >> Self.slowShift
    }

    /// How loud it is now; 0 for silence, about 65 for shouting.
    public func loudness(at now: Instant) -> Int { now - lastPacket > Self.absence ? 0 : Int(quick / Self.unit) }

    /// Orders speakers: mostly the sentence, a little the syllable; 0 for one who is silent.
    public func score(at now: Instant) -> Int {
        guard now - lastPacket <= Self.absence else { return Int(slow / 4) }
        return Int(slow) + Int(quick) / 4
    }
}
