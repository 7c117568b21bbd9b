import CMediaCrypto
import RTPCore

// SRTP and SRTCP of one direction of one association: packet layout, IVs, tags. Owns key memory. Refuses
// knowing what a packet's index is (`PacketIndexEstimator`), whether it was seen before (`ReplayWindow`), and
// anything behind the header.

/// Keys of one direction of one DTLS association, ready for use (RFC 3711 for counter mode, RFC 7714 for
/// AES-GCM).
///
/// A plain copyable struct (48 bytes) for slabs: all copies share one key memory, which `destroy()` zeroes
/// and frees once. Confined to one thread. Nothing here allocates after `create`. No MKI, no key derivation
/// rate, no header encryption (RFC 6904, RFC 9335): none of these is negotiated.
public struct SRTPCipher {
    /// What the AES-GCM of new ciphers runs on. `automatic` is the choice of `mc_init`.
    public enum Backend: Int32, Sendable, CaseIterable {
        case automatic = 0
        case openSSL = 1
        case ipsecMB = 2

        /// Whether this host has it and it passed its self-test.
        public var isAvailable: Bool { self == .automatic || mc_backend_available(rawValue) == 1 }
    }

    /// Bytes that sealing adds at most to an RTP packet, and to an RTCP packet (tag and index word).
    public static let maximumRTPOverhead = 16
    public static let maximumRTCPOverhead = 20

    public let profile: SRTPProfile
    /// The RTP session salt as the two halves of the IV it is XORed into.
    let saltHigh: UInt64
    let saltLow: UInt64
    let gcm: OpaquePointer?
    let counterMode: OpaquePointer?
    let control: UnsafeMutablePointer<ControlKeys>

    /// SRTCP keys, kept raw and expanded per use: a key schedule would cost 1 KB for a few packets a second.
    struct ControlKeys {
        var key: (UInt64, UInt64) = (0, 0)
        var authentication: (UInt64, UInt64, UInt32) = (0, 0, 0)
        var saltHigh: UInt64 = 0
        var saltLow: UInt64 = 0
        var backend: Int32 = 0
    }

    /// Derives the session keys (RFC 3711 §4.3) of a master key and salt. `masterKey` has
    /// `profile.keyByteCount` bytes and `masterSalt` `profile.saltByteCount`: anything else traps, because
    /// they come from our own DTLS exporter.
    public static func create(
        profile: SRTPProfile, masterKey: [UInt8], masterSalt: [UInt8], backend: Backend = .automatic
    ) -> SRTPCipher {
        precondition(masterKey.count == profile.keyByteCount && masterSalt.count == profile.saltByteCount)
        func derive(_ label: UInt8, _ byteCount: Int) -> [UInt8] {
            var out = [UInt8](repeating: 0, count: byteCount)
            mc_srtp_kdf(masterKey, masterSalt, masterSalt.count, label, &out, byteCount)
            return out
        }
        var keys = SRTPSessionKeys(
            key: derive(0, 16), authentication: derive(1, 20), salt: derive(2, profile.saltByteCount),
            controlKey: derive(3, 16), controlAuthentication: derive(4, 20),
            controlSalt: derive(5, profile.saltByteCount))
        defer { keys.wipe() }
        return SRTPCipher(profile: profile, keys: keys, backend: backend)
    }

    init(profile: SRTPProfile, keys: SRTPSessionKeys, backend: Backend) {
        self.profile = profile
        (saltHigh, saltLow) = Self.saltWords(keys.salt, profile)
        control = UnsafeMutablePointer<ControlKeys>.allocate(capacity: 1)
        var cold = ControlKeys()
        withUnsafeMutableBytes(of: &cold.key) { $0.copyBytes(from: keys.controlKey) }
        withUnsafeMutableBytes(of: &cold.authentication) { $0.copyBytes(from: keys.controlAuthentication) }
        (cold.saltHigh, cold.saltLow) = Self.saltWords(keys.controlSalt, profile)
        cold.backend = backend == .automatic ? mc_backend() : backend.rawValue
        control.initialize(to: cold)
        switch profile {
        case .aeadAES128GCM:
            gcm = mc_gcm_create(cold.backend, keys.key)
            counterMode = nil
            precondition(gcm != nil, "AES-GCM back end is not available")
        case .aes128CMSHA1_80:
            gcm = nil
            counterMode = mc_cm_create(keys.key, keys.authentication)
            precondition(counterMode != nil, "AES-CTR is not available")
        }
    }

    /// Asks for the cache lines that the next packet will need first. A hint.
    @inline(__always) func prefetch() {
        if let gcm { mc_gcm_prefetch(gcm) }
        if let counterMode { mc_prefetch(UnsafeRawPointer(counterMode)) }
    }

    /// Zeroes and frees the keys. No copy may be used afterwards.
    public func destroy() {
        mc_gcm_destroy(gcm)
        mc_cm_destroy(counterMode)
        mc_wipe(control, MemoryLayout<ControlKeys>.size)
        control.deallocate()
    }

    /// GCM: 12 bytes as 8 and 4 (RFC 7714 §8.1). Counter mode: 14 bytes as 8 and 6, the block counter zero
    /// (RFC 3711 §4.1.1).
    private static func saltWords(_ salt: [UInt8], _ profile: SRTPProfile) -> (UInt64, UInt64) {
        func word(_ range: Range<Int>) -> UInt64 { salt[range].reduce(0) { $0 << 8 | UInt64($1) } }
        return switch profile {
        case .aeadAES128GCM: (word(0..<8), word(8..<12))
        case .aes128CMSHA1_80: (word(0..<8), word(8..<14) << 16)
        }
    }
}

/// Session keys of one direction. Secret; wiped after use.
struct SRTPSessionKeys {
    var key: [UInt8]
    /// 20 bytes; not used by GCM.
    var authentication: [UInt8]
    var salt: [UInt8]
    var controlKey: [UInt8]
    var controlAuthentication: [UInt8]
    var controlSalt: [UInt8]

    mutating func wipe() {
        for path in [
            \Self.key, \.authentication, \.salt, \.controlKey, \.controlAuthentication, \.controlSalt,
        ] {
            self[keyPath: path].withUnsafeMutableBytes { mc_wipe($0.baseAddress, $0.count) }
        }
    }
}
