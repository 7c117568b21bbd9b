import CLinuxIO
import CMediaCrypto
import Glibc
import RTPCore
import RelayCore

// The clients of the bench: one UDP socket each, SRTP both ways, in rooms of neighbours (2n with 2n+1, or four). Makes
// the batches that every contender gets, bytes for bytes the same, and checks what comes back. Never timed.

/// What one cell of the grid does.
struct Workload: Hashable, Sendable {
    /// RTP header and payload, before protection.
    var packetByteCount: Int
    var batch: Int
    var participants: Int
    /// Packets of one sender in a row, as a video frame gives them.
    var burst: Int
    /// Of each packet: 1 in a call of two, more in a group.
    var receivers = 1

    var roomSize: Int { receivers + 1 }
    /// Who is in the room of a client.
    func room(of client: Int) -> Range<Int> {
        let first = client / roomSize * roomSize
        return first..<first + roomSize
    }

    /// Above this size packets are video.
    var isVideo: Bool { packetByteCount > 400 }
    /// Per participant and second: what moves the contenders' clock.
    var packetsPerSecond: Int { isVideo ? 200 : 50 }

    /// Until every participant has sent a few packets, which sets up state, and the relay's packet history holds what it will
    /// hold, half a second or all that it may: memory that is touched for the first time costs a page fault.
    var warmUpRounds: Int {
        let kept = min(participants * packetsPerSecond / 2, EngineConfiguration().historyByteCount / 1_000)
        // Who is heard and seen in a group is settled within a second.
        let settling = receivers > 1 ? participants * packetsPerSecond : 0
        return max(50, max(4 * participants, settling, isVideo ? kept : 0) / batch)
    }
}

/// A check on the contenders' output failed: a measurement of wrong work means nothing.
struct BenchFailure: Error, CustomStringConvertible {
    var description: String
}

final class Fleet {
    struct Client {
        var socket: Int32
        var port: UInt16
        var ssrc: UInt32
        var masterKeys: SRTPKeys
        var sending: SRTPCipher
        var receiving: SRTPCipher
        var nextIndex: UInt64
        var nextTime: UInt32
        var sentCount: UInt32
    }

    static let headerByteCount = 24
    static let slotByteCount = 1_536
    static let payloadType: UInt8 = 111
    static let midExtension: UInt8 = 4
    static let audioLevelExtension: UInt8 = 1
    static let transportCCExtension: UInt8 = 3

    let workload: Workload
    private(set) var clients: [Client] = []
    /// The batch: `senders[i]` sends `byteCounts[i]` bytes at slot i.
    private(set) var senders: [Int] = []
    /// Connectivity checks that came to clients and wait for an answer.
    var checks: [(client: Int, transactionID: STUNTransactionID)] = []
    private var byteCounts: [Int] = []
    private let slots: UnsafeMutablePointer<UInt8>
    private let plain: UnsafeMutablePointer<UInt8>
    private let inbox: UnsafeMutablePointer<UInt8>
    private let messages: UnsafeMutablePointer<lio_message>
    private let buffers: UnsafeMutablePointer<lio_buffer>
    private let name: UnsafeMutablePointer<lio_name>
    private var cursor = 0

    init(_ workload: Workload) throws {
        self.workload = workload
        slots = .allocate(capacity: workload.batch * Self.slotByteCount)
        plain = .allocate(capacity: Self.slotByteCount)
        inbox = .allocate(capacity: 64 * Self.slotByteCount)
        messages = .allocate(capacity: 64)
        buffers = .allocate(capacity: 64)
        name = .allocate(capacity: 1)
        plain.initialize(repeating: 0, count: Self.slotByteCount)
        messages.initialize(repeating: lio_message(), count: 64)
        name.initialize(to: lio_name())
        for i in 0..<64 {
            (buffers + i).initialize(
                to: lio_buffer(base: inbox + i * Self.slotByteCount, byte_count: Self.slotByteCount))
        }
        var random = RandomSource.seeded(UInt64(workload.participants))
        for number in 0..<workload.participants { clients.append(try makeClient(number, &random)) }
    }

    deinit {
        for client in clients {
            close(client.socket)
            client.sending.destroy()
            client.receiving.destroy()
        }
        slots.deallocate()
        plain.deallocate()
        inbox.deallocate()
        messages.deallocate()
        buffers.deallocate()
        name.deallocate()
    }

    private func makeClient(_ number: Int, _ random: inout RandomSource) throws -> Client {
        func bytes(_ count: Int) -> [UInt8] {
            (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
        let keys = SRTPKeys(
            profile: .aeadAES128GCM, receiveKey: bytes(16), receiveSalt: bytes(12), sendKey: bytes(16),
            sendSalt: bytes(12))
        let socket = lio_udp_socket(1, 0)
        let loopback = PeerAddress(ipv4: 0x7F00_0001, port: 0)
        guard socket >= 0, lio_bind(socket, 1, loopback.high, loopback.low, 0) == 0 else {
            throw BenchFailure(description: "no socket for client \(number): raise the limit of open files")
        }
        return Client(
            socket: socket, port: UInt16(lio_bound_port(socket)), ssrc: 0x1000_0000 + UInt32(number),
            masterKeys: keys,
            sending: .create(profile: keys.profile, masterKey: keys.receiveKey, masterSalt: keys.receiveSalt),
            receiving: .create(profile: keys.profile, masterKey: keys.sendKey, masterSalt: keys.sendSalt),
            nextIndex: UInt64.random(in: 1_024...20_000, using: &random),
            nextTime: UInt32.random(in: 0...UInt32.max, using: &random), sentCount: 0)
    }

    // MARK: Feeding

    /// Makes the next batch: senders take turns, `burst` packets each.
    func makeBatch() {
        senders.removeAll(keepingCapacity: true)
        byteCounts.removeAll(keepingCapacity: true)
        while senders.count < workload.batch {
            let sender = cursor
            cursor = (cursor + 1) % clients.count
            for _ in 0..<min(workload.burst, workload.batch - senders.count) { appendPacket(of: sender) }
            clients[sender].nextTime &+= workload.isVideo ? 3_000 : 960
        }
    }

    private func appendPacket(of sender: Int) {
        let client = clients[sender]
        let slot = slots + senders.count * Self.slotByteCount
        writeHeader(slot, client)
        writePayload(plain, sender: sender, count: client.sentCount)
        let total = client.sending.sealRTP(
            slot, headerByteCount: Self.headerByteCount, payload: plain,
            payloadByteCount: workload.packetByteCount - Self.headerByteCount, ssrc: client.ssrc,
            index: client.nextIndex)
        senders.append(sender)
        byteCounts.append(total)
        clients[sender].nextIndex += 1
        clients[sender].sentCount += 1
    }

    /// A browser's header: MID, audio level, transport-wide number; 24 bytes.
    private func writeHeader(_ slot: UnsafeMutablePointer<UInt8>, _ client: Client) {
        let number = UInt16(truncatingIfNeeded: client.nextIndex)
        let time = client.nextTime
        let ssrc = client.ssrc
        let bytes: [UInt8] = [
            0x90, Self.payloadType, UInt8(number >> 8), UInt8(number & 255),
            UInt8(time >> 24), UInt8(time >> 16 & 255), UInt8(time >> 8 & 255), UInt8(time & 255),
            UInt8(ssrc >> 24), UInt8(ssrc >> 16 & 255), UInt8(ssrc >> 8 & 255), UInt8(ssrc & 255),
            0xBE, 0xDE, 0, 2,
            Self.midExtension << 4, UInt8(ascii: "0"), Self.audioLevelExtension << 4, 0x85,
            Self.transportCCExtension << 4 | 1, UInt8(client.sentCount >> 8 & 255),
            UInt8(client.sentCount & 255), 0,
        ]
        slot.update(from: bytes, count: bytes.count)
    }

    /// A VP8 descriptor (a key frame starts in each stream's first packet; in a group in each of its first, so that slots fill), then who sent it and which, then
    /// a pattern.
    private func writePayload(_ payload: UnsafeMutablePointer<UInt8>, sender: Int, count: UInt32) {
        let isKey = count < (workload.receivers > 1 ? 64 : 1)
        payload[0] = workload.isVideo ? (isKey ? 0x10 : 0x00) : 0x78
        payload[1] = isKey ? 0x10 : 0
        for i in 0..<4 {
            payload[2 + i] = UInt8(truncatingIfNeeded: sender >> (24 - 8 * i))
            payload[6 + i] = UInt8(truncatingIfNeeded: count >> UInt32(24 - 8 * i))
        }
        for i in 10..<workload.packetByteCount - Self.headerByteCount {
            payload[i] = UInt8(truncatingIfNeeded: i &* 31)
        }
    }

    /// Sends the batch to a contender, each packet from its sender's socket.
    func feed(port: UInt16) throws {
        let loopback = PeerAddress(ipv4: 0x7F00_0001, port: port)
        var message = lio_message()
        message.name = UnsafeMutableRawPointer(name)
        message.name_byte_count = lio_write_name(name, 1, loopback.high, loopback.low, port)
        for (i, sender) in senders.enumerated() {
            var buffer = lio_buffer(base: slots + i * Self.slotByteCount, byte_count: byteCounts[i])
            let result = withUnsafeMutablePointer(to: &buffer) { pointer in
                message.buffers = pointer
                message.buffer_count = 1
                return lio_send(clients[sender].socket, &message, 1)
            }
            guard result == 1 else { throw BenchFailure(description: "feeding failed: error \(-result)") }
        }
    }

    // MARK: Draining

    /// Takes what a contender sent to the receivers of this batch and hands every media packet to `check`.
    /// RTCP, STUN and DTLS are passed over. Returns the count of media packets.
    func drain(_ check: (_ receiver: Int, _ packet: UnsafeMutableBufferPointer<UInt8>) throws -> Void) throws
        -> Int
    {
        var count = 0
        var last = -1
        for sender in senders where sender != last {
            last = sender
            for receiver in workload.room(of: sender) where receiver != sender {
                count += try drain(receiver: receiver, check)
            }
        }
        return count
    }

    /// Throws away everything that waits for any client.
    func discardAll() {
        for receiver in clients.indices { _ = try? drain(receiver: receiver) { _, _ in } }
    }

    private func drain(
        receiver: Int, _ check: (_ receiver: Int, _ packet: UnsafeMutableBufferPointer<UInt8>) throws -> Void
    ) throws -> Int {
        var media = 0
        while true {
            for i in 0..<64 {
                messages[i] = lio_message()
                messages[i].buffers = buffers + i
                messages[i].buffer_count = 1
            }
            let count = lio_receive(clients[receiver].socket, messages, 64)
            guard count > 0 else { return media }
            for i in 0..<Int(count) {
                let bytes = UnsafeMutableBufferPointer(
                    start: inbox + i * Self.slotByteCount, count: Int(messages[i].byte_count))
                guard bytes.count >= 12, bytes[0] >> 6 == 2, !(192...223).contains(bytes[1]) else {
                    if let check = STUNMessage(UnsafeBufferPointer(bytes).span),
                        check.messageClass == .request
                    {
                        checks.append((receiver, check.transactionID))
                    }
                    continue
                }
                media += 1
                try check(receiver, bytes)
            }
        }
    }

    /// Whether an opened payload is one that somebody else of the receiver's room sent.
    func isGenuine(_ payload: UnsafeMutableBufferPointer<UInt8>.SubSequence, receiver: Int) -> Bool {
        guard payload.count == workload.packetByteCount - Self.headerByteCount else { return false }
        let base = payload.startIndex
        let sender = (0..<4).reduce(0) { $0 << 8 | Int(payload[base + 2 + $1]) }
        guard sender != receiver, workload.room(of: receiver).contains(sender) else { return false }
        for i in 10..<payload.count where payload[base + i] != UInt8(truncatingIfNeeded: i &* 31) {
            return false
        }
        return true
    }
}
