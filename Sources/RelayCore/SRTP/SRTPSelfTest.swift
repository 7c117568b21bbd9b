import CMediaCrypto

// Proof at process start that our SRTP is everybody's SRTP: known answers from the RFCs, and each profile and
// back end against libsrtp2 in both directions. A process that fails it must not carry media.

public enum SRTPSelfTest {
    public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// Which proof failed: profile, back end, step. No key material.
        public var description: String
    }

    /// Runs all proofs: a few milliseconds, for every available back end. Any thread.
    public static func run() throws(Failure) {
        guard mc_backend() != MC_BACKEND_NONE else { throw Failure(description: "no AES-GCM back end works") }
        try keyDerivation()
        for backend in SRTPCipher.Backend.allCases where backend != .automatic && backend.isAvailable {
            try knownAnswers(backend)
            for profile in SRTPProfile.allCases { try agreement(profile, backend) }
        }
    }

    /// RFC 3711 appendix B.3.
    private static func keyDerivation() throws(Failure) {
        var key = [UInt8](repeating: 0, count: 16)
        mc_srtp_kdf(
            bytes("E1F97A0D3E018BE0D64FA32C06DE4139"), bytes("0EC675AD498AFEEBB6960B3AABE6"), 14, 0, &key, 16)
        try prove(key == bytes("C61E7A93744F39EE10734AFE3FF7A087"), "RFC 3711 B.3")
    }

    /// RFC 7714 §16.1.1 (SRTP) and §17.1.1 (SRTCP); both give session keys.
    private static func knownAnswers(_ backend: SRTPCipher.Backend) throws(Failure) {
        let key = bytes("000102030405060708090A0B0C0D0E0F")
        let salt = bytes("517569642070726F2071756F")
        let cipher = SRTPCipher(
            profile: .aeadAES128GCM,
            keys: SRTPSessionKeys(
                key: key, authentication: [], salt: salt, controlKey: key, controlAuthentication: [],
                controlSalt: salt),
            backend: backend)
        defer { cipher.destroy() }
        let header = bytes("8040F17B8041F8D35501A0B2")
        let payload = Array("Gallia est omnis divisa in partes tres".utf8)
        let packet = cipher.sealed(header: header, payload: payload, ssrc: 0x5501_A0B2, index: 0xF17B)
        let expected =
            header
            + bytes(
                "F24DE3A3FB34DE6CACBA861C9D7E4BCABE633BD50D294E6F42A5F47A51C7D19B36DE3ADF8833899D7F27BEB16A9152CF"
                    + "765EE4390CCE")
        try prove(packet == expected, "RFC 7714 16.1.1, \(backend)")
        let report = bytes(
            "81C8000D4D6172734E5450314E545032525450200000042A0000E9304C756E61DEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEF"
        )
        let sealedReport = bytes(
            "81C8000D4D61727363E94885DCDAB67CA727D7662F6B7E997FF5C0F76C06F32DC676A5F1730D6FDA4CE09B468630"
                + "3DED0BB9275BC84AA45896CF4D2FC5ABF87245D9EADE800005D4")
        try prove(cipher.openedRTCP(sealedReport)?.plain == report, "RFC 7714 17.1.1, \(backend)")
        try prove(
            cipher.sealedRTCP(report, index: 0x5D4) == sealedReport, "RFC 7714 17.1.1 sealing, \(backend)")
    }

    /// What we seal libsrtp2 opens, what it seals we open, and a changed byte is refused.
    private static func agreement(_ profile: SRTPProfile, _ backend: SRTPCipher.Backend) throws(Failure) {
        let name = "\(profile), \(backend)"
        let key = (0..<profile.keyByteCount).map { UInt8($0 &* 7 &+ 3) }
        let salt = (0..<profile.saltByteCount).map { UInt8($0 &* 5 &+ 11) }
        let cipher = SRTPCipher.create(profile: profile, masterKey: key, masterSalt: salt, backend: backend)
        defer { cipher.destroy() }
        let header = bytes("90EFFFFE0000A5A5CAFEBABEBEDE000110FF0000")
        let payload = (0..<161).map { UInt8($0) }
        let report = bytes("81C90007CAFEBABE0000000100000000000000020000000300000004000000058000000A")
        do {
            let sender = try SRTPOracle(
                profile: profile, masterKey: key, masterSalt: salt, direction: .sending)
            let receiver = try SRTPOracle(
                profile: profile, masterKey: key, masterSalt: salt, direction: .receiving)
            let ours = cipher.sealed(header: header, payload: payload, ssrc: 0xCAFE_BABE, index: 0xFFFE)
            try prove(try receiver.unprotectRTP(ours) == header + payload, "libsrtp2 opens our RTP, \(name)")
            var theirs = try sender.protectRTP(header + payload)
            try prove(theirs == ours, "libsrtp2 seals the same RTP, \(name)")
            try prove(
                cipher.openedRTP(theirs, headerByteCount: 20, ssrc: 0xCAFE_BABE, index: 0xFFFE) == header
                    + payload,
                "we open libsrtp2's RTP, \(name)")
            theirs[40] ^= 1
            try prove(
                cipher.openedRTP(theirs, headerByteCount: 20, ssrc: 0xCAFE_BABE, index: 0xFFFE) == nil,
                "a changed RTP packet is refused, \(name)")

            let ourReport = cipher.sealedRTCP(report, index: 1)
            try prove(try receiver.unprotectRTCP(ourReport) == report, "libsrtp2 opens our RTCP, \(name)")
            var theirReport = try sender.protectRTCP(report)
            try prove(theirReport == ourReport, "libsrtp2 seals the same RTCP, \(name)")
            let opened = cipher.openedRTCP(theirReport)
            try prove(opened?.plain == report && opened?.index == 1, "we open libsrtp2's RTCP, \(name)")
            theirReport[12] ^= 1
            try prove(cipher.openedRTCP(theirReport) == nil, "a changed RTCP packet is refused, \(name)")
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(description: "libsrtp2 refused a packet (\(error)), \(name)")
        }
    }

    private static func prove(_ condition: Bool, _ what: @autoclosure () -> String) throws(Failure) {
        if !condition { throw Failure(description: what()) }
    }

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.utf8.map { $0 > 0x39 ? ($0 | 0x20) - 0x61 + 10 : $0 - 0x30 }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
