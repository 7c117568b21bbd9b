import RTPCore
import RelayCore

// What the conductor's tests and its fuzzer have in common: offers, devices and short forms of what it tells.

let conductorEndpoint = WorkerEndpoint(
    candidates: [WorkerEndpoint.Candidate(address: "192.0.2.1", port: 40_000)],
    fingerprint: [UInt8](repeating: 7, count: 32))

/// The smallest offer of an audio and video call.
func conductorOffer(ufrag: String, fingerprintByte: String = "AB", audioOnly: Bool = false) -> [UInt8] {
    let fingerprint = Array(repeating: fingerprintByte, count: 32).joined(separator: ":")
    func section(_ index: Int, _ kind: String, _ payloadType: Int, _ codec: String) -> [String] {
        [
            "m=\(kind) 9 UDP/TLS/RTP/SAVPF \(payloadType)", "c=IN IP4 0.0.0.0", "a=mid:\(index)",
            "a=ice-ufrag:\(ufrag)", "a=ice-pwd:abcdefghijklmnopqrstuvwx", "a=fingerprint:sha-256 \(fingerprint)",
            "a=setup:actpass", "a=sendrecv", "a=rtcp-mux", "a=rtpmap:\(payloadType) \(codec)",
        ]
    }
    var lines = ["v=0", "o=- 1 1 IN IP4 0.0.0.0", "s=-", "t=0 0", "a=group:BUNDLE 0" + (audioOnly ? "" : " 1")]
    lines += section(0, "audio", 111, "opus/48000/2")
    if !audioOnly { lines += section(1, "video", 96, "VP8/90000") }
    return Array(lines.map { $0 + "\r\n" }.joined().utf8)
}

extension Principal {
    /// A device of a user's, with a token for one room.
    static func device(_ uid: String, _ room: RoomID, device: String = "phone") -> Principal {
        .participant(ParticipantIdentity(uid: uid, device: device, room: room, grants: .standard))
    }
}

extension RelayEvent {
    var line: String {
        [type.rawValue, uid, reason].compactMap { $0 }.joined(separator: " ")
    }
    func value(_ name: String) -> JSONValue? { data.first { $0.name == name }?.value }
}

extension ShelvedRoom {
    /// As the journal keeps it beside the record.
    init(_ room: RoomRecord) {
        self.init(id: room.id, handle: room.handle, ordinal: room.ordinal, endedAtMs: room.endedAtMs ?? 0)
    }
}

extension ConductorInput {
    /// Neither a hello nor a drain, which decide about many things in one turn.
    var isOneDecision: Bool {
        switch self {
        case .request, .news: true
        default: false
        }
    }
}
