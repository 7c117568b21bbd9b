import RTPCore

/// How many checks from addresses that are not selected are worth a hash (T21). Whoever has seen a session's user name can send checks
/// in its name from anywhere; each that does not verify takes from its source's share, and only such ones do. So a flood uses up its own
/// sources' shares: a client's first check from a new address is verified unless its host has forged as well, and then unless just that
/// port did. Forging from everywhere fills all shares; what is verified then is bounded by the tables, and a client's repeats come
/// through by chance. Owns its memory, 24 KB for ever. One thread.
final class CheckBudget {
    /// Shares in each of the tables; a power of two. Together they bound the hashes to 51,200 a second, 5 % of a core.
    static let shareCount = 512

    /// By host (IPv6: its network of 64 bits), then by host and port.
    private let shares: UnsafeMutablePointer<TokenBucket>
    /// Nobody can aim at another's share.
    private let key: UInt64

    init(key: UInt64) {
        self.key = key
        shares = .allocate(capacity: Self.shareCount * 2)
        shares.initialize(repeating: TokenBucket(), count: Self.shareCount * 2)
    }

    deinit { shares.deallocate() }

    /// The share that a check from `peer` was taken from; nil: none is left.
    func take(for peer: PeerAddress, now: Instant) -> UnsafeMutablePointer<TokenBucket>? {
        let host = shares + place(peer, port: 0)
        if host.pointee.take(rate: Limits.failedChecksPerSecond, now: now) { return host }
        let port = shares + Self.shareCount + place(peer, port: peer.port)
        return port.pointee.take(rate: Limits.failedChecksPerSecond, now: now) ? port : nil
    }

    private func place(_ peer: PeerAddress, port: UInt16) -> Int {
        var mixed = (peer.isIPv4 ? peer.low : peer.high) ^ key
        mixed = (mixed ^ mixed &>> 32) &* 0xC2B2_AE3D_27D4_EB4F &+ UInt64(port) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ mixed &>> 29 ^ key &<< 7) &* 0xBF58_476D_1CE4_E5B9
        return Int(truncatingIfNeeded: (mixed ^ mixed &>> 31) &>> 8) & (Self.shareCount - 1)
    }
}
