import RTPCore

// Prompts as conductor and workers speak of them: sounds that the node plays into its rooms, and orders to play one.

/// A sound by its content: 64 bits of a digest, never 0. The same bytes are the same sound in every process.
public struct SoundID: Hashable, Sendable, Codable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// A sound as Opus packets, in the order in which they are played. Owns bytes only; how often and to whom is a prompt's.
public struct Sound: Hashable, Sendable {
    /// Longest packet of a sound: with header, extensions and tag it fits a datagram.
    public static let packetByteCount = 1_000
    /// Packets of one sound at most: 20 min of 20 ms.
    public static let packetCount = 60_000
    /// Bytes of one sound at most.
    public static let byteCount = 2 << 20

    public let id: SoundID
    public let packets: [[UInt8]]
    /// What all packets last together.
    public let duration: Interval

    /// Nil for no packets, more or longer ones than the bounds above, or one whose duration cannot be read (RFC 6716 §3).
    public init?(packets: [[UInt8]]) {
        guard (1...Self.packetCount).contains(packets.count) else { return nil }
        var duration = Interval.zero
        var byteCount = 0
        // FNV-1a over counts and bytes.
        var digest: UInt64 = 0xCBF2_9CE4_8422_2325
        func note(_ byte: UInt8) { digest = (digest ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        for packet in packets {
            guard packet.count <= Self.packetByteCount, let toc = OpusTOC(packet.span) else { return nil }
            duration = duration + toc.duration
            byteCount += packet.count
            note(UInt8(truncatingIfNeeded: packet.count >> 8))
            note(UInt8(truncatingIfNeeded: packet.count))
            for byte in packet { note(byte) }
        }
        guard byteCount <= Self.byteCount else { return nil }
        id = SoundID(digest == 0 ? 1 : digest)
        self.packets = packets
        self.duration = duration
    }

    /// The packets in parts that each fit a link message.
    var parts: [[[UInt8]]] {
        var parts: [[[UInt8]]] = [[]]
        var byteCount = 0
        for packet in packets {
            if byteCount + packet.count + 2 > Self.partByteCount {
                parts.append([])
                byteCount = 0
            }
            parts[parts.count - 1].append(packet)
            byteCount += packet.count + 2
        }
        return parts
    }

    /// What a part takes on the link at most.
    static let partByteCount = 48 << 10
}

/// How conductor and workers name a prompt on the link: 64 random bits, never 0.
public struct PromptHandle: Hashable, Sendable, Codable {
    public var value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// What one participant shall hear.
public struct PromptOrder: Hashable, Sendable {
    public var prompt: PromptHandle
    public var sound: SoundID
    /// How often; 0: until it is stopped.
    public var times: UInt32
    /// Between two times. What the participant hears otherwise passes meanwhile.
    public var pause: Interval
    public init(prompt: PromptHandle, sound: SoundID, times: UInt32, pause: Interval) {
        self.prompt = prompt
        self.sound = sound
        self.times = times
        self.pause = pause
    }
}

/// Why a participant hears a prompt no longer, other than by a command.
public enum PromptEnd: UInt8, Hashable, Sendable, Codable {
    /// Played as often as was wished.
    case finished
    /// The worker does not have the sound, or the participant has no m-line to hear it on.
    case failed
}
