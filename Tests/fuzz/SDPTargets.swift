import RTPCore
import RelayCore

private let endpoint = WorkerEndpoint(
    candidates: [.init(address: "192.0.2.1", port: 40_000), .init(address: "2001:db8::1", port: 443, isStream: true)],
    fingerprint: [UInt8](repeating: 7, count: 32))

extension FuzzTarget {
    /// A description is refused, or written as one that reads as the same. An offer is refused with a reason, or gets an
    /// answer that follows the rules and a transport that fits onto the link. The first byte is the room's policy.
    static let sdp = FuzzTarget(
        name: "sdp", byteLimit: 16_384,
        seeds: {
            let broken = ["v=0\r\n", "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", ""].map { Array($0.utf8) }
            return inputs(realDescriptions, behind: 0, 0x3F, 0x12) + inputs(broken, behind: 0)
        }
    ) { bytes in
        let offer = Array(bytes.dropFirst())
        guard let description = try? SessionDescription(parsing: offer) else {
            if let problem = refusal(of: offer, bytes[0]) { check(problem) }
            return
        }
        checkWriting(description)
        var random = RandomSource.seeded(1)
        do throws(Problem) {
            let session = try Negotiator.negotiate(
                offer: offer, policy: policy(bytes[0]), endpoint: endpoint, random: &random)
            check(session, of: description)
        } catch {
            check(error)
        }
    }

    private static func policy(_ byte: UInt8) -> NegotiationPolicy {
        let codecs: [MediaCodec] = [.vp8, .h264, .vp9, .av1]
        let grants = Grants(
            publishAudio: byte & 32 == 0, publishVideo: byte & 64 == 0, subscribe: byte & 128 == 0, end: false)
        var policy = NegotiationPolicy(
            kind: byte & 1 == 0 ? .peer : .group, media: byte & 2 == 0 ? .video : .audio,
            videoCodec: codecs[Int(byte >> 2 & 3)], grants: grants)
        policy.red = byte & 16 != 0
        return policy
    }

    private static func refusal(of offer: [UInt8], _ byte: UInt8) -> Problem? {
        var random = RandomSource.seeded(1)
        do throws(Problem) {
            _ = try Negotiator.negotiate(offer: offer, policy: policy(byte), endpoint: endpoint, random: &random)
            fatalError("broken promise: an offer that is not read was answered")
        } catch {
            return error
        }
    }

    private static func check(_ problem: Problem) {
        require([400, 406, 413, 422].contains(problem.status), "an offer is refused with \(problem.status)")
        require(!problem.code.isEmpty && problem.detail.utf8.count < 1_000, "a refusal without a word, or a long one")
    }

    /// Written and read, a description is written the same again. What is too long when it is written is no fault.
    private static func checkWriting(_ description: SessionDescription) {
        let text = description.serialized()
        do throws(SDPError) {
            let again = try SessionDescription(parsing: text)
            require(again.serialized() == text, "another description")
        } catch {
            require(error.kind == .limit, "what was written is not read: \(error)")
        }
    }

    private static func check(_ session: NegotiatedSession, of offer: SessionDescription) {
        guard let answer = try? SessionDescription(parsing: session.answer) else {
            fatalError("broken promise: the answer is not read")
        }
        require(answer.media.count == offer.media.count, "\(answer.media.count) m-lines for \(offer.media.count)")
        require(session.answer.count <= 2 * SDPLimits.byteCount, "an answer of \(session.answer.count) bytes")
        require(answer.isICELite, "an answer that is not ICE-lite")
        require(session.sections.contains { $0.kind == .audio }, "a call without sound")
        require(session.sections.count <= Limits.sectionsPerTransport, "too many sections")
        require(!session.fingerprints.isEmpty, "a session without a fingerprint")
        require(session.sections.allSatisfy { $0.mid.utf8.count <= Negotiator.midByteCount }, "a long mid")
        for (line, offered) in zip(answer.media, offer.media) where !line.isRejected {
            require(!offered.isRejected && line.kind == offered.kind, "an m-line that was not offered")
            let types = Set(offered.codecs.map(\.payloadType))
            require(line.codecs.allSatisfy { types.contains($0.payloadType) }, "a payload type that was not offered")
            require(line.transport.setup != .actpass && line.transport.setup != .active, "we are no DTLS client")
        }
        let configuration = TransportConfiguration(
            participant: ParticipantHandle(1), room: RoomHandle(2), isPeerRoom: true, joinsWhenReady: false,
            localICE: session.localICE, remoteICE: session.remoteICE, fingerprints: session.fingerprints,
            sections: session.sections)
        let frame = LinkMessage.command(.create(configuration)).encoded()
        let isSame = (try? LinkMessage(decoding: frame[4...])) == .command(.create(configuration))
        require(isSame, "a session that the link does not carry")
    }

    /// A fragment is refused, or written as one that reads as the same; as an ICE restart it gets its answer.
    static let trickle = FuzzTarget(
        name: "trickle", byteLimit: 4_096,
        seeds: {
            let texts = [
                "a=ice-ufrag:again\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n",
                "a=group:BUNDLE 0 1\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=ice-ufrag:abcd\r\n"
                    + "a=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\na=candidate:1 1 udp 2113937151 192.0.2.9 40000 typ host\r\n"
                    + "a=end-of-candidates\r\n",
                "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=candidate:1 1 tcp 5 ::1 9 typ host tcptype passive\r\n",
            ]
            return texts.map { Array($0.utf8) } + realDescriptions.prefix(4)
        }
    ) { bytes in
        var random = RandomSource.seeded(1)
        let fingerprint = CertificateFingerprint(algorithm: .sha256, bytes: [UInt8](repeating: 9, count: 32))
        do throws(Problem) {
            let restart = try Negotiator.restart(
                fragment: bytes, fingerprints: [fingerprint], sections: [], endpoint: endpoint, random: &random)
            require(restart.fragment.count < 8_192, "an answer of \(restart.fragment.count) bytes")
            let isRead = (try? TrickleFragment(parsing: restart.fragment))?.iceUfrag == restart.localICE.ufrag
            require(isRead, "the answer to a restart is not read")
        } catch {
            check(error)
        }
        guard let fragment = try? TrickleFragment(parsing: bytes) else { return }
        let text = fragment.serialized()
        do throws(SDPError) {
            require(try TrickleFragment(parsing: text).serialized() == text, "another fragment")
        } catch {
            require(error.kind == .limit, "what was written is not read: \(error)")
        }
    }
}
