import Foundation
import RTPCore
import RelayClient

/// What a load is to be: who comes, how fast, for how long, to which server. Plain values; refuses what does not go together.
package struct LoadPlan: Sendable {
    package enum Scenario: String, CaseIterable, Sendable {
        case audio, video, churn, storm, group
    }

    /// The server that the user named. Nothing else is ever asked or sent to.
    package enum Server: Sendable {
        /// A MediaRelay: rooms are made, and everybody of a room gets everybody else's media.
        case relay(RelayClient, url: String)
        /// An endpoint to publish at.
        case whip(url: String, token: String?)

        package var url: String {
            switch self {
            case .relay(_, let url), .whip(let url, _): url
            }
        }
    }

    package var scenario: Scenario
    package var server: Server
    /// Rooms, or publishers where there are none, at a time. `storm`: not used.
    package var rooms: Int
    /// People in a room; 1 where there are none.
    package var roomSize: Int
    package var profile: MediaProfile
    /// People who come in a second.
    package var rate: Double
    /// How long everybody stays, once all have come; `churn`, `storm`: how long people come and go.
    package var seconds: Double
    /// `churn`: how long a call lasts.
    package var callSeconds: Double
    package var mayLeaveMachine: Bool
    package var authorities: String?

    package init(scenario: Scenario, server: Server) {
        self.scenario = scenario
        self.server = server
        rooms = [.audio: 50, .video: 10, .churn: 20, .group: 2][scenario] ?? 0
        let hasRooms = if case .relay = server { true } else { false }
        roomSize = !hasRooms ? 1 : scenario == .group ? 4 : 2
        profile = scenario == .video || scenario == .group ? .audioVideo : .audio
        rate = scenario == .storm ? 100 : 50
        seconds = scenario == .storm ? 5 : 20
        callSeconds = 5
        mayLeaveMachine = false
    }

    /// Clients at once at most: those who come meet those who have not quite gone.
    package var capacity: Int {
        switch scenario {
        case .audio, .video, .group: rooms * roomSize
        case .churn: rooms * roomSize * 2
        // Nobody needs 12 s from the request to the first packet.
        case .storm: Int(rate * 12) + 2 * roomSize
        }
    }

    /// Whether a URL's host is this machine's loopback, by its name alone: no name server is asked.
    package static func isLoopback(url: String) -> Bool {
        guard var host = URL(string: url)?.host?.lowercased() else { return false }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" { return true }
        return PeerAddress(address: host, port: 1).map(isLoopback) ?? false
    }

    package static func isLoopback(_ address: PeerAddress) -> Bool {
        address.isIPv4 ? address.ipv4 >> 24 == 127 : address.high == 0 && address.low == 1
    }
}
