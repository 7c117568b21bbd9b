import RTPCore
import RelayClient
import RelayCore
import RelayTesting

// How one person's session is asked for, and where its media may go.

extension LoadPlan {
    /// As libwebrtc without a browser, which leaves its media to the mill.
    func options(_ number: Int, _ identity: DTLSClientIdentity) -> SimulatedClient.Options {
        var options = SimulatedClient.Options()
        options.seed = UInt64.random(in: 1...UInt64.max)
        options.dialect = .libwebrtc
        options.hasVideo = profile == .audioVideo
        options.sendsAtOnce = false
        options.keepsPackets = false
        options.identity = identity
        options.namesDTLSRole = true
        options.receives = roomSize > 1
        options.extraAudioSlots = max(0, roomSize - 2)
        options.extraVideoSlots = max(0, roomSize - 2)
        return options
    }

    /// Where a person's offer goes, with what token.
    func endpoint(room: String, uid: String) throws -> (url: String, token: String?) {
        switch server {
        case .relay(let client, let url):
            let base = url.hasSuffix("/") ? String(url.dropLast()) : url
            return ("\(base)/v1/rooms/\(room)/sessions?state=joined", try client.token(uid: uid, room: room))
        case .whip(let url, let token):
            return (url, token)
        }
    }

    /// The first UDP candidate of an answer that a person may send to. Without leave to, that is one of this machine's loopback.
    func candidate(in answer: [UInt8]) throws -> PeerAddress {
        let description: SessionDescription
        do {
            description = try SessionDescription(parsing: answer)
        } catch {
            throw LoadFault("answer: \(error)")
        }
        let all = description.media.flatMap(\.candidates).filter { !$0.isStream && $0.component == 1 }
            .compactMap { PeerAddress(address: $0.address, port: $0.port) }
        guard !all.isEmpty else { throw LoadFault("answer: no UDP candidate with an address") }
        // All clients of a server on loopback send from there.
        if LoadPlan.isLoopback(url: server.url) {
            guard let local = all.first(where: { $0.isIPv4 && LoadPlan.isLoopback($0) }) else {
                throw LoadFault("answer: no candidate of 127.0.0.0/8, though the URL is this machine's")
            }
            return local
        }
        return all.first { $0.isIPv4 } ?? all[0]
    }
}
