import RTPCore

/// The last few audio packets of one track, for the earlier blocks of RED (RFC 2198) that its receivers get, and which of
/// its numbers came in RED blocks only. Exists where the sender or a receiver negotiated RED; bounded: `capacity` packets
/// of what one block can hold. Knows one source; another one begins anew. Owned by the track.
struct RecentAudio {
    /// A power of two. The packet at hand is one of them.
    static let capacity = 4
    /// Earlier packets that can be had.
    static let deepest = capacity - 1
    private static let slotByteCount = 1_024

    struct Packet {
        var index: UInt64
        var timestamp: UInt32
        var byteCount: Int
    }

    private let packets: UnsafeMutablePointer<Packet>
    private let bytes: UnsafeMutablePointer<UInt8>
    private(set) var source: Int32 = -1
    /// The highest number so far; bit i of `recovered`: number `newest - i` was taken out of a RED block.
    private var newest: UInt64 = 0
    private var recovered: UInt64 = 0

    static func create() -> UnsafeMutablePointer<RecentAudio> {
        let packets = UnsafeMutablePointer<Packet>.allocate(capacity: capacity)
        packets.initialize(repeating: Packet(index: .max, timestamp: 0, byteCount: 0), count: capacity)
        let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity * slotByteCount)
        bytes.initialize(repeating: 0, count: capacity * slotByteCount)
        let memory = UnsafeMutablePointer<RecentAudio>.allocate(capacity: 1)
        memory.initialize(to: RecentAudio(packets: packets, bytes: bytes))
        return memory
    }

    static func destroy(_ recent: UnsafeMutablePointer<RecentAudio>) {
        recent.pointee.packets.deallocate()
        recent.pointee.bytes.deallocate()
        recent.deinitialize(count: 1)
        recent.deallocate()
    }

    private init(packets: UnsafeMutablePointer<Packet>, bytes: UnsafeMutablePointer<UInt8>) {
        self.packets = packets
        self.bytes = bytes
    }

    enum Arrival {
        case first
        /// It came in a RED block before: its receivers have it. Under its number nothing may be sent again.
        case again
        /// So late that it is not known whether it did.
        case late
    }

    /// A packet of `source` has come.
    mutating func begin(_ index: UInt64, of source: Int32) -> Arrival {
        if source != self.source {
            self.source = source
            newest = index
            recovered = 0
            for k in 0..<Self.capacity { packets[k].index = .max }
        }
        if index > newest {
            let step = index - newest
            recovered = step >= 64 ? 0 : recovered << step
            newest = index
        }
        guard newest - index < 64 else { return .late }
        return recovered >> (newest - index) & 1 == 1 ? .again : .first
    }

    /// Notes that `index` was taken out of a RED block; false when it was before, or is too old to tell.
    mutating func recover(_ index: UInt64) -> Bool {
        let age = newest &- index
        guard age < 64, recovered >> age & 1 == 0 else { return false }
        recovered |= 1 << age
        return true
    }

    /// Keeps a packet's payload; one that no RED block can hold is not kept.
    mutating func store(_ index: UInt64, timestamp: UInt32, _ payload: UnsafePointer<UInt8>, byteCount: Int) {
        guard byteCount > 0, byteCount <= REDWriter.longestBlock, newest &- index < UInt64(Self.capacity) else {
            return
        }
        let slot = Int(index & UInt64(Self.capacity - 1))
        packets[slot] = Packet(index: index, timestamp: timestamp, byteCount: byteCount)
        (bytes + slot * Self.slotByteCount).update(from: payload, count: byteCount)
    }

    func find(_ index: UInt64) -> Packet? {
        let packet = packets[Int(index & UInt64(Self.capacity - 1))]
        return packet.index == index ? packet : nil
    }

    /// What `store` kept; good until the packet's place is taken.
    func payload(of packet: Packet) -> UnsafeMutablePointer<UInt8> {
        bytes + Int(packet.index & UInt64(Self.capacity - 1)) * Self.slotByteCount
    }
}
