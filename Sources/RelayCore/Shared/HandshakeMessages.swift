import CMediaCrypto
import RTPCore

// What passes between the media loop's engine and the handshaker, which lives on a thread of its own: an OpenSSL handshake
// costs as much CPU as a hundred packets.

/// SRTP protection profiles by their DTLS numbers (RFC 5764 §4.1.2, RFC 7714 §14.2).
public enum SRTPProfile: UInt16, Hashable, Sendable, CaseIterable {
    case aes128CMSHA1_80 = 1
    case aeadAES128GCM = 7

    public var keyByteCount: Int { 16 }
    /// 14 for counter mode (RFC 3711), 12 for GCM (RFC 7714).
    public var saltByteCount: Int { self == .aeadAES128GCM ? 12 : 14 }
    /// Bytes that protection adds to an RTP packet: the authentication tag.
    public var tagByteCount: Int { self == .aeadAES128GCM ? 16 : 10 }
}

/// Master keys of one DTLS association. The relay is always the DTLS server: it receives with the client's key and sends
/// with the server's. Secret: the bytes are wiped with the last copy of the value.
public struct SRTPKeys: Hashable, Sendable, CustomStringConvertible {
    public var profile: SRTPProfile
    private let material: SRTPMaterial

    public init(
        profile: SRTPProfile, receiveKey: [UInt8], receiveSalt: [UInt8], sendKey: [UInt8], sendSalt: [UInt8]
    ) {
        self.profile = profile
        material = SRTPMaterial([receiveKey, receiveSalt, sendKey, sendSalt])
    }

    public var receiveKey: [UInt8] { material.parts[0] }
    public var receiveSalt: [UInt8] { material.parts[1] }
    public var sendKey: [UInt8] { material.parts[2] }
    public var sendSalt: [UInt8] { material.parts[3] }
    public var description: String { "SRTPKeys(\(profile), redacted)" }

    public static func == (a: Self, b: Self) -> Bool { a.profile == b.profile && a.material.parts == b.material.parts }
    public func hash(into hasher: inout Hasher) {
        hasher.combine(profile)
        hasher.combine(material.parts)
    }
}

/// The bytes behind all copies of an association's keys.
final class SRTPMaterial: @unchecked Sendable, CustomReflectable {
    // @unchecked: written at its end only, when nobody else has it.
    private(set) var parts: [[UInt8]]

    init(_ parts: [[UInt8]]) { self.parts = parts }
    deinit { wipe() }

    /// In place; a part that somebody still uses is theirs to wipe.
    func wipe() {
        for index in parts.indices { parts[index].withUnsafeMutableBytes { mc_wipe($0.baseAddress, $0.count) } }
    }

    var customMirror: Mirror { Mirror(self, children: []) }
}

/// Engine → handshaker.
public enum HandshakeRequest: Hashable, Sendable {
    /// A transport exists; records may follow. No SSL object is made before the first record.
    case begin(ParticipantHandle, fingerprints: [CertificateFingerprint])
    /// One datagram of DTLS records from an address that passed an authenticated check.
    case records(ParticipantHandle, [UInt8])
    /// Send close_notify where the association is up, then forget everything.
    case close(ParticipantHandle)
}

/// Handshaker → engine.
public enum HandshakeResult: Hashable, Sendable {
    /// One datagram (at most 1,200 bytes) to send to the transport's selected path.
    case datagram(ParticipantHandle, [UInt8])
    /// Finished, certificate and profile good.
    case established(ParticipantHandle, SRTPKeys)
    /// It will not come up (`fingerprintMismatch`, `noSRTPProfile`, `handshakeFailed`), or an established association was
    /// closed by the peer's authenticated alert (`closed`).
    case ended(ParticipantHandle, TransportEnd)
}
