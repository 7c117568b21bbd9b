import CLinuxIO
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

// The product as a contender: the engine and the worker's own reader and writer on a socket, set up by
// commands, real connectivity checks and keys as the handshaker gives them.

final class RelayContender: Relay {
    let name = "relay"
    let port: UInt16
    let seals = true

    private let fleet: Fleet
    private let engine: MediaEngine
    private let reader: DatagramReader
    private let writer: DatagramWriter
    private let local: UInt8
    private static let relayPassword = "relay-password-0123456789"
    private static let clientPassword = "client-password-012345678"

    init(fleet: Fleet, now: Instant) throws {
        self.fleet = fleet
        let socket = try UDPSocket(binding: PeerAddress(ipv4: 0x7F00_0001, port: 0))
        port = socket.address.port
        let table = LocalAddressTable(sockets: [socket])
        local = table.index(ofSocket: 0)
        reader = DatagramReader(sockets: [socket], table: table)
        writer = DatagramWriter(sockets: [socket], table: table, usesSegmentation: true)
        engine = MediaEngine(configuration: EngineConfiguration(), random: .seeded(1), now: now)
        try connectAll(now)
    }

    // MARK: Setting up

    private func connectAll(_ now: Instant) throws {
        for number in fleet.clients.indices { engine.apply(.create(configuration(number)), now: now) }
        for (number, client) in fleet.clients.enumerated() {
            var check = TestCheck(
                transactionID: STUNTransactionID(high: 1, low: UInt64(number)),
                receiverUfrag: ufrag("r", number),
                senderUfrag: ufrag("c", number), password: Self.relayPassword)
            check.nominates = true
            receive(check.bytes, from: number, now)
            engine.receive(.established(handle(number), client.masterKeys), now: now)
            engine.apply(.join(handle(number)), now: now)
            finish()
        }
        fleet.discardAll()
    }

    private func handle(_ number: Int) -> ParticipantHandle { ParticipantHandle(UInt64(number) + 1) }

    /// Eight characters, as the conductor draws them.
    private func ufrag(_ side: String, _ number: Int) -> String { side + String(number + 1_000_000) }

    private func configuration(_ number: Int) -> TransportConfiguration {
        let workload = fleet.workload
        return TransportConfiguration(
            participant: handle(number), room: RoomHandle(UInt64(number / workload.roomSize) + 1),
            isPeerRoom: workload.receivers == 1, joinsWhenReady: false,
            localICE: ICECredentials(ufrag: ufrag("r", number), password: Self.relayPassword),
            remoteICE: ICECredentials(ufrag: ufrag("c", number), password: Self.clientPassword),
            fingerprints: [
                CertificateFingerprint(algorithm: .sha256, bytes: [UInt8](repeating: 1, count: 32))
            ],
            sections: (0..<workload.receivers).map { section(number, slot: $0) })
    }

    /// The client sends on the first one and receives on each. In a group pictures carry no transport-wide numbers: without
    /// feedback there would be no rate for three of them.
    private func section(_ number: Int, slot: Int) -> MediaSection {
        let isVideo = fleet.workload.isVideo
        var section = MediaSection(
            index: slot, mid: "\(slot)", kind: isVideo ? .video : .audio, codec: isVideo ? .vp8 : .opus,
            payloadType: Fleet.payloadType)
        section.clientSends = slot == 0
        section.clientReceives = true
        section.extensions[.mid] = Fleet.midExtension
        section.extensions[.audioLevel] = Fleet.audioLevelExtension
        section.extensions[.transportCC] = Fleet.transportCCExtension
        let isGroup = fleet.workload.receivers > 1
        section.feedback = isVideo ? (isGroup ? [.nack, .pli] : [.nack, .pli, .transportCC]) : [.transportCC]
        section.signalledSSRCs = slot == 0 ? [fleet.clients[number].ssrc] : []
        let place = UInt32(number * fleet.workload.receivers + slot)
        section.sendSSRC = 0x3000_0000 + place
        if isVideo {
            section.rtxPayloadType = 112
            section.sendRTXSSRC = 0x4000_0000 + place
        }
        return section
    }

    /// Hands a datagram to the engine as if `client` had sent it.
    private func receive(_ bytes: [UInt8], from client: Int, _ now: Instant) {
        var copy = bytes
        let peer = PeerAddress(ipv4: 0x7F00_0001, port: fleet.clients[client].port)
        copy.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            engine.receive(base, count: buffer.count, from: peer, local: local, now: now)
        }
    }

    /// Sends what is due and takes what the engine wants to tell.
    private func finish() {
        writer.send(engine.transmit)
        _ = engine.takeHandshakeRequests()
        _ = engine.takeNews()
    }

    // MARK: Running

    func step(now: Instant) {
        let count = reader.receive(from: 0).count
        engine.expect(reader.peers, count: count)
        for index in 0..<count {
            let datagram = reader.datagrams + index
            if engine.needsFlush { writer.send(engine.transmit) }
            engine.receive(
                datagram.pointee.bytes, count: datagram.pointee.byteCount, from: datagram.pointee.peer,
                local: datagram.pointee.local, now: now)
        }
        writer.send(engine.transmit)
    }

    func settle(now: Instant) {
        for check in fleet.checks {
            let mapped = PeerAddress(ipv4: 0x7F00_0001, port: port)
            receive(
                checkAnswer(
                    transactionID: check.transactionID, mapped: mapped, password: Self.clientPassword),
                from: check.client, now)
        }
        fleet.checks.removeAll(keepingCapacity: true)
        engine.finishBatch(now: now)
        if engine.deadline <= now { engine.advance(to: now) }
        finish()
    }

    /// Drops by reason, to explain a count that is not what was fed.
    var drops: String {
        DropReason.allCases.filter { engine.counters[$0] > 0 }.map { "\($0.name) \(engine.counters[$0])" }
            .joined(separator: ", ")
    }
}
