import RTPCore

/// Which transport an address belongs to. Open addressing, linear probing, at most half full, so that a look-up is one or two
/// cache lines. Written only for addresses that passed an authenticated STUN check; grows by doubling (off the packet path).
final class FlowTable {
    struct Entry {
        var address: PeerAddress
        /// -1: empty.
        var transport: Int32
        var path: Int32
    }

    private var entries: UnsafeMutablePointer<Entry>
    private var mask: Int
    private(set) var count = 0

    init(minimumCapacity: Int) {
        var size = 64
        while size < minimumCapacity * 2 { size *= 2 }
        entries = Self.make(size)
        mask = size - 1
    }

    deinit { entries.deallocate() }

    private static func make(_ size: Int) -> UnsafeMutablePointer<Entry> {
        let entries = UnsafeMutablePointer<Entry>.allocate(capacity: size)
        entries.initialize(repeating: Entry(address: .none, transport: -1, path: -1), count: size)
        return entries
    }

    /// Every bit of address and port must reach the bits that are used: clients behind one NAT differ in the port alone.
    @inline(__always) private func slot(of address: PeerAddress) -> Int {
        var mixed = address.low ^ (address.high &* 0xC2B2_AE3D_27D4_EB4F)
        mixed = (mixed ^ mixed &>> 32) &+ UInt64(address.port) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ mixed &>> 29) &* 0xBF58_476D_1CE4_E5B9
        return Int(truncatingIfNeeded: mixed &>> 32) & mask
    }

    /// Entries that a look-up of `address` passes before it ends; 0 when its first place decides.
    func probeCount(_ address: PeerAddress) -> Int {
        var at = slot(of: address), count = 0
        while entries[at].transport >= 0 && entries[at].address != address {
            at = (at + 1) & mask
            count += 1
        }
        return count
    }

    /// The transport and path of `address`; nil when it has none.
    @inline(__always) func find(_ address: PeerAddress) -> (transport: Int32, path: Int32)? {
        var at = slot(of: address)
        while entries[at].transport >= 0 {
            if entries[at].address == address { return (entries[at].transport, entries[at].path) }
            at = (at &+ 1) & mask
        }
        return nil
    }

    /// Sets or replaces the owner of `address`.
    func set(_ address: PeerAddress, transport: Int32, path: Int32) {
        precondition(transport >= 0, "a flow without a transport")
        if (count + 1) * 2 > mask + 1 { grow() }
        var at = slot(of: address)
        while entries[at].transport >= 0 && entries[at].address != address { at = (at + 1) & mask }
        if entries[at].transport < 0 { count += 1 }
        entries[at] = Entry(address: address, transport: transport, path: path)
    }

    /// Removes `address` if `transport` still owns it. Closes the probe chain behind it, so that no tombstones gather.
    func remove(_ address: PeerAddress, ownedBy transport: Int32) {
        var hole = slot(of: address)
        while entries[hole].transport >= 0 && entries[hole].address != address { hole = (hole + 1) & mask }
        guard entries[hole].transport == transport else { return }
        count -= 1
        var next = (hole + 1) & mask
        while entries[next].transport >= 0 {
            let home = slot(of: entries[next].address)
            // Move `next` into the hole unless its home lies cyclically after the hole.
            if ((next - home) & mask) >= ((next - hole) & mask) {
                entries[hole] = entries[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        entries[hole].transport = -1
    }

    private func grow() {
        let old = entries
        let oldSize = mask + 1
        entries = Self.make(oldSize * 2)
        mask = oldSize * 2 - 1
        count = 0
        for i in 0..<oldSize where old[i].transport >= 0 {
            set(old[i].address, transport: old[i].transport, path: old[i].path)
        }
        old.deallocate()
    }
}
