// What went out under which transport-wide number. Owns the numbering of one transport; refuses to judge what
// the receiver says of it.

/// Remembers the packets of one transport by their transport-wide number until feedback tells of them
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01 §2). The window holds the newest 512; a packet that was
/// not reported on by then is forgotten.
///
/// Owns C memory (4 KiB): made by `create`, freed once by `destroy`. Copies share that memory. Allocates
/// nothing in between.
@safe public struct SentPacketWindow {
    /// How many packets are remembered; a power of two.
    public static let windowCount: Int64 = 512

    /// One packet as it was sent.
    public struct Packet: Hashable, Sendable {
        /// Whole microseconds.
        public var sentAt: Instant
        /// With everything that the path carries for it.
        public var byteCount: Int
        /// The probe that it was part of; 0: none.
        public var probe: UInt8
    }

    @usableFromInline struct Entry {
        /// The lowest 32 bits of the microseconds; packets in the window are far less than 35 minutes apart.
        var sentAt: UInt32
        /// 0: reported on, or never sent.
        var byteCount: UInt16
        var probe: UInt8
        /// The receiver has said that it is missing.
        var isMissing: Bool
    }

    @usableFromInline let entries: UnsafeMutablePointer<Entry>
    /// The next packet's number, extended. The first is 1.
    @usableFromInline var next: Int64 = 1
    /// Microseconds at which the newest was sent.
    private var newest: Int64 = 0

    private init(entries: UnsafeMutablePointer<Entry>) { unsafe self.entries = entries }

    public static func create() -> SentPacketWindow {
        let entries = UnsafeMutablePointer<Entry>.allocate(capacity: Int(windowCount))
        unsafe entries.initialize(
            repeating: Entry(sentAt: 0, byteCount: 0, probe: 0, isMissing: false), count: Int(windowCount))
        return unsafe SentPacketWindow(entries: entries)
    }

    /// Frees the memory; neither this value nor a copy of it may be used afterwards.
    public func destroy() {
        // Safe: allocated by `create`, and the caller's contract is to call this once.
        unsafe entries.deallocate()
    }

    /// The number that the next packet gets.
    public var nextNumber: UInt16 { UInt16(truncatingIfNeeded: next) }

    /// Where the next packet will be noted: a hint for caches, nothing to read.
    @inlinable public var nextPlace: UnsafeRawPointer {
        unsafe UnsafeRawPointer(entries + Int(next & (Self.windowCount - 1)))
    }

    /// Notes a packet that leaves now and gives it its number.
    /// - Parameter byteCount: 1…65,535.
    @discardableResult
    public mutating func send(byteCount: Int, at now: Instant, probe: UInt8 = 0) -> UInt16 {
        let number = next
        next &+= 1
        newest = now.nanoseconds / 1_000
        // Safe: the mask keeps the index inside the window.
        unsafe entries[Int(number & (Self.windowCount - 1))] = Entry(
            sentAt: UInt32(truncatingIfNeeded: newest), byteCount: UInt16(truncatingIfNeeded: byteCount),
            probe: probe, isMissing: false)
        return UInt16(truncatingIfNeeded: number)
    }

    /// A packet that the receiver has: told once, then forgotten.
    /// - Returns: the packet, and whether it had been reported missing before; nil for a number that was never
    ///   sent, has left the window or was told already.
    public mutating func arrived(_ number: UInt16) -> (packet: Packet, wasMissing: Bool)? {
        guard let index = index(of: number) else { return nil }
        // Safe: `index(of:)` gives places of the window.
        let entry = unsafe entries[index]
        guard entry.byteCount > 0 else { return nil }
        unsafe entries[index].byteCount = 0
        return (
            Packet(sentAt: instant(entry.sentAt), byteCount: Int(entry.byteCount), probe: entry.probe),
            entry.isMissing
        )
    }

    /// A packet that the receiver has not: true the first time. It may still come.
    public mutating func isMissing(_ number: UInt16) -> Bool {
        guard let index = index(of: number) else { return false }
        // Safe: as above.
        let entry = unsafe entries[index]
        guard entry.byteCount > 0, !entry.isMissing else { return false }
        unsafe entries[index].isMissing = true
        return true
    }

    private func instant(_ sentAt: UInt32) -> Instant {
        let age = Int32(bitPattern: UInt32(truncatingIfNeeded: newest) &- sentAt)
        return Instant(nanoseconds: (newest - Int64(age)) * 1_000)
    }

    private func index(of number: UInt16) -> Int? {
        let extended = SequenceNumber.extend(number, near: next - 1)
        guard extended < next, extended >= max(1, next - Self.windowCount) else { return nil }
        return Int(extended & (Self.windowCount - 1))
    }
}
