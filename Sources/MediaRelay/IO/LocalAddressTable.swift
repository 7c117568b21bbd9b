import RTPCore

/// The local addresses that datagrams came to, numbered 0…63 as the engine knows them, each with the socket
/// to send from. Index 0 lets the kernel choose the source (first socket of the peer's family); sockets bound
/// to one address get an index at once, those bound to a wildcard learn theirs from what arrives. Bounded:
/// past 63 addresses everything is index 0.
package final class LocalAddressTable {
    package static let capacity = 64

    package struct Entry {
        /// Index into the sockets that the table was made of; -1: none.
        package var socket: Int
        package var high: UInt64
        package var low: UInt64
        /// 0 unless the address is link-local.
        package var interfaceIndex: Int32
        /// The source must be named in each datagram (the socket is bound to a wildcard).
        package var namesSource: Bool

        var isIPv4: Bool { high == 0 && low >> 32 == 0xFFFF }
    }

    /// The last two let the kernel choose: the first socket of each family.
    private let entries: UnsafeMutablePointer<Entry>
    package private(set) var count = 1
    /// The index of each socket that is bound to one address, 0 for wildcard sockets.
    private let boundIndexes: [UInt8]

    /// - Precondition: 1…32 sockets.
    package init(sockets: [UDPSocket]) {
        precondition((1...32).contains(sockets.count), "\(sockets.count) media sockets")
        entries = .allocate(capacity: Self.capacity + 2)
        entries.initialize(
            repeating: Entry(socket: -1, high: 0, low: 0, interfaceIndex: 0, namesSource: false),
            count: Self.capacity + 2)
        entries[Self.capacity].socket = sockets.firstIndex(where: \.isIPv4) ?? -1
        entries[Self.capacity + 1].socket = sockets.firstIndex { !$0.isIPv4 } ?? -1
        var indexes: [UInt8] = []
        for (position, socket) in sockets.enumerated() {
            guard !socket.isWildcard else {
                indexes.append(0)
                continue
            }
            indexes.append(UInt8(count))
            entries[count] = Entry(
                socket: position, high: socket.address.high, low: socket.address.low, interfaceIndex: 0,
                namesSource: false)
            count += 1
        }
        boundIndexes = indexes
    }

    deinit { entries.deallocate() }

    /// The index of a socket that is bound to one address; 0 for a wildcard socket.
    @inline(__always) package func index(ofSocket socket: Int) -> UInt8 { boundIndexes[socket] }

    /// The index of a local address at which a datagram came to a wildcard socket; learns new ones.
    package func index(ofSocket socket: Int, high: UInt64, low: UInt64, interface: Int32) -> UInt8 {
        let local = PeerAddress(high: high, low: low, port: 0)
        let interface = local.isLinkLocal ? interface : 0
        for index in 1..<max(count, 1) {
            let entry = entries[index]
            if entry.low == low, entry.high == high, entry.socket == socket, entry.interfaceIndex == interface {
                return UInt8(index)
            }
        }
        guard count < Self.capacity, !local.isWildcard else { return 0 }
        entries[count] = Entry(
            socket: socket, high: high, low: low, interfaceIndex: interface, namesSource: true)
        count += 1
        return UInt8(count - 1)
    }

    /// Where to send from; nil when there is no socket of the peer's family or the index belongs to the other
    /// family. Valid as long as the table.
    @inline(__always)
    package func source(of local: UInt8, to peer: PeerAddress) -> UnsafePointer<Entry>? {
        let isIPv4 = peer.isIPv4
        let chosen = isIPv4 ? Self.capacity : Self.capacity + 1
        precondition(Int(local) < Self.capacity, "local address index out of range")
        let entry = entries + (local == 0 ? chosen : Int(local))
        guard entry.pointee.socket >= 0, local == 0 || entry.pointee.isIPv4 == isIPv4 else { return nil }
        return UnsafePointer(entry)
    }
}
