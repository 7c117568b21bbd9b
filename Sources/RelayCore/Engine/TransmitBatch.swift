import RTPCore

/// Datagrams that the engine wants sent, in order: fixed slots that it writes into and that the shell hands to the kernel.
/// Owns the memory; never grows: when it is full, a packet is dropped and counted. One thread.
public final class TransmitBatch {
    /// Bytes between the starts of two slots; the longest datagram that fits.
    public static let slotByteCount = 1_536

    public struct Entry {
        public var peer: PeerAddress
        public var byteCount: UInt16
        /// Index of the local address to send from.
        public var local: UInt8

        public init(peer: PeerAddress, byteCount: UInt16, local: UInt8) {
            self.peer = peer
            self.byteCount = byteCount
            self.local = local
        }
    }

    public let capacity: Int
    public let slots: UnsafeMutablePointer<UInt8>
    public let entries: UnsafeMutablePointer<Entry>
    /// The count, behind a pointer: Swift checks each access to what other modules can see of a class, which would cost a
    /// packet more than its slot.
    private let used: UnsafeMutablePointer<Int>
    /// Datagrams in the batch.
    @inline(__always) public var count: Int { used.pointee }

    public init(capacity: Int) {
        precondition(capacity > 0, "a batch without slots")
        self.capacity = capacity
        slots = UnsafeMutableRawPointer.allocate(byteCount: capacity * Self.slotByteCount, alignment: 64)
            .assumingMemoryBound(to: UInt8.self)
        entries = .allocate(capacity: capacity)
        used = .allocate(capacity: 1)
        used.initialize(to: 0)
    }

    deinit {
        slots.deallocate()
        entries.deallocate()
        used.deallocate()
    }

    /// Free slots.
    @inline(__always) public var room: Int { capacity &- used.pointee }

    /// Where the next datagram goes, `slotByteCount` bytes; nil when the batch is full. `commit` makes it count.
    @inline(__always) public func reserve() -> UnsafeMutablePointer<UInt8>? {
        let next = used.pointee
        return next < capacity ? slots + next &* Self.slotByteCount : nil
    }

    @inline(__always) public func commit(byteCount: Int, to peer: PeerAddress, local: UInt8) {
        assert(count < capacity && byteCount > 0 && byteCount <= Self.slotByteCount)
        entries[used.pointee] = Entry(peer: peer, byteCount: UInt16(truncatingIfNeeded: byteCount), local: local)
        used.pointee &+= 1
    }

    public func removeAll() { used.pointee = 0 }
}
