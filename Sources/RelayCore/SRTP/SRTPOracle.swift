import CSRTP

// libsrtp2 as the second opinion on our SRTP: for the self-test at start, tests and the bench. Never on the
// packet path (its Debian build slows down with every live session).

/// One direction of one association as libsrtp2 sees it. Confined to one thread.
public final class SRTPOracle {
    public enum Direction: Sendable {
        case sending, receiving
    }

    /// libsrtp2's status (`srtp_err_status_t`): 7 authentication failed, 9 replayed, 10 too old.
    public struct Failure: Error, Hashable, Sendable {
        public var status: UInt32
    }

    private let session: srtp_t

    /// Keys as in `SRTPCipher.create`. `ssrc` nil: any; a fixed one is needed for `setRollover`.
    public init(
        profile: SRTPProfile, masterKey: [UInt8], masterSalt: [UInt8], direction: Direction,
        ssrc: UInt32? = nil
    ) throws(Failure) {
        guard Self.libraryStatus == srtp_err_status_ok else {
            throw Failure(status: Self.libraryStatus.rawValue)
        }
        var policy = srtp_policy_t()
        switch profile {
        case .aeadAES128GCM:
            srtp_crypto_policy_set_aes_gcm_128_16_auth(&policy.rtp)
            srtp_crypto_policy_set_aes_gcm_128_16_auth(&policy.rtcp)
        case .aes128CMSHA1_80:
            srtp_crypto_policy_set_rtp_default(&policy.rtp)
            srtp_crypto_policy_set_rtcp_default(&policy.rtcp)
        }
        policy.ssrc.type = direction == .sending ? ssrc_any_outbound : ssrc_any_inbound
        if let ssrc {
            policy.ssrc.type = ssrc_specific
            policy.ssrc.value = ssrc
        }
        policy.window_size = UInt(ReplayWindow.mediaBitCount)
        var key = masterKey + masterSalt
        var created: srtp_t?
        let status = key.withUnsafeMutableBufferPointer { bytes in
            policy.key = bytes.baseAddress
            return srtp_create(&created, &policy)
        }
        guard status == srtp_err_status_ok, let created else { throw Failure(status: status.rawValue) }
        session = created
    }

    deinit { srtp_dealloc(session) }

    public func protectRTP(_ packet: [UInt8]) throws(Failure) -> [UInt8] { try run(packet, srtp_protect) }
    public func unprotectRTP(_ packet: [UInt8]) throws(Failure) -> [UInt8] { try run(packet, srtp_unprotect) }
    public func protectRTCP(_ packet: [UInt8]) throws(Failure) -> [UInt8] {
        try run(packet, srtp_protect_rtcp)
    }
    public func unprotectRTCP(_ packet: [UInt8]) throws(Failure) -> [UInt8] {
        try run(packet, srtp_unprotect_rtcp)
    }

    /// Sets the rollover counter of the next packet of `ssrc`, which the session was made for.
    public func setRollover(_ counter: UInt32, ssrc: UInt32) throws(Failure) {
        let status = srtp_set_stream_roc(session, ssrc, counter)
        guard status == srtp_err_status_ok else { throw Failure(status: status.rawValue) }
    }

    private func run(
        _ packet: [UInt8],
        _ operation: (srtp_t?, UnsafeMutableRawPointer?, UnsafeMutablePointer<Int32>?) -> srtp_err_status_t
    ) throws(Failure) -> [UInt8] {
        var count = Int32(packet.count)
        // Room for libsrtp2's trailer and for its reads of whole words behind short packets.
        var buffer = packet + [UInt8](repeating: 0, count: 64)
        let status = buffer.withUnsafeMutableBytes { operation(session, $0.baseAddress, &count) }
        guard status == srtp_err_status_ok else { throw Failure(status: status.rawValue) }
        return Array(buffer.prefix(Int(count)))
    }

    /// The library is set up once per process.
    private static let libraryStatus = srtp_init()
}
