import RTPCore
import RelayCore

// Proof that a contender did the work it is timed for: every packet it sent opens with its receiver's key and
// carries what somebody of the same room sent; those of the first clients open in libsrtp2 too.

final class Verifier {
    /// Clients whose packets libsrtp2 opens as well (its cost grows with its sessions).
    static let oracleCount = 4

    private let fleet: Fleet
    /// Of each client, by SSRC.
    private var estimators: [[UInt32: PacketIndexEstimator]]
    private let oracles: [SRTPOracle]
    private(set) var openedByOracle = 0

    init(fleet: Fleet) throws {
        self.fleet = fleet
        estimators = Array(repeating: [:], count: fleet.clients.count)
        oracles = try fleet.clients.prefix(Self.oracleCount).map {
            try SRTPOracle(
                profile: $0.masterKeys.profile, masterKey: $0.masterKeys.sendKey,
                masterSalt: $0.masterKeys.sendSalt, direction: .receiving)
        }
    }

    func check(receiver: Int, packet: UnsafeMutableBufferPointer<UInt8>) throws {
        guard let header = RTPHeader(UnsafeBufferPointer(packet).span), let base = packet.baseAddress else {
            throw BenchFailure(description: "client \(receiver) got a packet without an RTP header")
        }
        if receiver < oracles.count {
            do {
                _ = try oracles[receiver].unprotectRTP(Array(packet))
                openedByOracle += 1
            } catch {
                throw BenchFailure(description: "libsrtp2 refused a packet for client \(receiver): \(error)")
            }
        }
        let index = estimators[receiver][header.ssrc, default: PacketIndexEstimator()].estimate(header.sequenceNumber)
        let count = fleet.clients[receiver].receiving.openRTP(
            base, count: packet.count, headerByteCount: header.headerByteCount, ssrc: header.ssrc,
            index: index)
        guard count >= 0 else {
            throw BenchFailure(
                description:
                    "client \(receiver) cannot open packet \(header.sequenceNumber) of \(header.ssrc)")
        }
        estimators[receiver][header.ssrc, default: PacketIndexEstimator()].update(index)
        guard fleet.isGenuine(packet[header.headerByteCount..<count], receiver: receiver) else {
            throw BenchFailure(description: "client \(receiver) got another payload than its partner sent")
        }
    }
}
