import RTPCore
import RelayCore

/// Which message each receiver's next datagram may join, while the messages of one call are made. Owns the memory for that;
/// knows nothing of sockets. Looking for a receiver is one cache line or two: there are twice as many places as messages.
struct SendChains {
    /// The newest message to one receiver: what may still be added to it.
    struct Chain {
        var peer: PeerAddress
        var local: UInt8
        /// A shorter datagram has ended it.
        var isClosed: Bool
        /// Of each of its datagrams, the last one excepted.
        var segmentByteCount: UInt16
        var byteCount: Int32
    }

    /// Where a receiver's newest message is found by its address; of this call when the stamp is.
    struct Place {
        var stamp: UInt32
        var message: Int32
    }

    private let chains: UnsafeMutablePointer<Chain>
    private let places: UnsafeMutablePointer<Place>
    private let mask: Int
    private let shift: UInt64
    private var stamp: UInt32 = 0

    /// - Parameter count: messages of one call, a power of two.
    init(count: Int) {
        precondition(count > 0 && count & (count - 1) == 0)
        chains = .allocate(capacity: count)
        places = .allocate(capacity: count * 2)
        places.initialize(repeating: Place(stamp: 0, message: 0), count: count * 2)
        mask = count * 2 - 1
        shift = UInt64(64 - (count * 2).trailingZeroBitCount)
    }

    func destroy() {
        chains.deallocate()
        places.deallocate()
    }

    /// Forgets the messages of before.
    mutating func start() {
        stamp &+= 1
        guard stamp == 0 else { return }
        places.update(repeating: Place(stamp: 0, message: 0), count: mask + 1)
        stamp = 1
    }

    @inline(__always) subscript(message: Int) -> UnsafeMutablePointer<Chain> { chains + message }
    @inline(__always) var firstPlace: UnsafeMutablePointer<Place> { places }

    @inline(__always) func isTo(_ entry: TransmitBatch.Entry, _ message: Int) -> Bool {
        chains[message].peer == entry.peer && chains[message].local == entry.local
    }

    /// The place of the entry's receiver: of its newest message, or a free one.
    @inline(__always) func place(of entry: TransmitBatch.Entry) -> UnsafeMutablePointer<Place> {
        var mixed = (entry.peer.low ^ (entry.peer.high &<< 1)) &+ UInt64(entry.peer.port) &<< 32
        mixed = (mixed ^ mixed &>> 29) &* 0x9E37_79B9_7F4A_7C15
        var at = Int(truncatingIfNeeded: mixed &>> shift)
        while places[at].stamp == stamp, !isTo(entry, Int(places[at].message)) { at = (at &+ 1) & mask }
        return places + at
    }

    /// The newest message of the receiver whose place it is; nil: none yet.
    @inline(__always) func message(at place: UnsafeMutablePointer<Place>) -> Int? {
        place.pointee.stamp == stamp ? Int(place.pointee.message) : nil
    }

    @inline(__always) func set(_ message: Int, at place: UnsafeMutablePointer<Place>) {
        place.pointee = Place(stamp: stamp, message: Int32(truncatingIfNeeded: message))
    }

    /// Message `index` is to the entry's receiver and begins with it.
    @inline(__always) func begin(_ index: Int, with entry: TransmitBatch.Entry) {
        (chains + index).initialize(
            to: Chain(
                peer: entry.peer, local: entry.local, isClosed: false, segmentByteCount: entry.byteCount,
                byteCount: Int32(entry.byteCount)))
    }
}
