import CLimit
import CLinuxIO
import RTPCore
import RelayCore

/// One of the loops that are compared: the relay, or a level of the limit.
protocol Contender: AnyObject {
    /// Short, for the table.
    var name: String { get }
    /// Where it receives, on 127.0.0.1.
    var port: UInt16 { get }
    /// Whether what it sends can be opened.
    var seals: Bool { get }
    /// The timed part: receive one batch, forward, send.
    func step(now: Instant)
    /// The untimed rest: timers.
    func settle(now: Instant)
}

/// The C loop of bench/CLimit.
final class LimitContender: Contender {
    enum Level: Int32, CaseIterable {
        case io = 0
        case crypto = 1
        case segmented = 2
        var name: String {
            switch self {
            case .io: "L0"
            case .crypto: "L1"
            case .segmented: "L1g"
            }
        }
    }

    let name: String
    let port: UInt16
    let seals: Bool
    private let loop: OpaquePointer

    init(_ level: Level, fleet: Fleet) throws {
        name = level.name
        seals = level != .io
        guard let loop = limit_create(level.rawValue, UInt32(fleet.clients.count)) else {
            throw BenchFailure(description: "the limit loop has no memory or no socket")
        }
        self.loop = loop
        port = limit_port(loop)
        for client in fleet.clients {
            let keys = client.masterKeys
            _ = limit_add(
                loop, 0x7F00_0001, client.port, keys.receiveKey, keys.receiveSalt, keys.sendKey, keys.sendSalt)
        }
        for number in fleet.clients.indices {
            for receiver in fleet.workload.room(of: number) where receiver != number {
                limit_connect(
                    loop, UInt32(number), fleet.clients[number].ssrc, UInt32(receiver), 0x2000_0000 + UInt32(number),
                    Fleet.payloadType)
            }
        }
    }

    deinit { limit_destroy(loop) }

    func step(now: Instant) { _ = limit_step(loop, nil) }
    func settle(now: Instant) {}
}
