import CHeap
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// Calls on conductor and engine alone, in this process and in virtual time: create, prepare twice, ring, answer, some media,
/// hang up. What they leave on the heap must not grow with their number.
enum CyclesScenario {
    static func run(_ loop: EventLoop, _ options: LoadOptions, _ report: LoadReport) throws {
        let total = options.count(short: 20_000, long: 1_000_000)
        let rig = try CycleRig(seed: options.seed)
        let warmUp = total / 5
        var heap = Trend()
        var resident = Trend()
        let began = MonotonicClock.now()
        for cycle in 0..<total {
            try rig.cycle()
            guard cycle >= warmUp, cycle.isMultiple(of: max(1, total / 1_000)) else { continue }
            heap.add(Double(cycle), Double(heap_byte_count()))
            resident.add(Double(cycle), Double(ProcessStatus(getpid()).residentBytes))
            report.progress(
                MonotonicClock.now(), "cycles: \(cycle) of \(total), \(heap_byte_count() >> 10) KiB of heap in use")
        }
        let seconds = Double((MonotonicClock.now() - began).nanoseconds) / 1e9
        var faults: [String] = rig.leftovers
        for (name, trend) in [("heap", heap), ("resident", resident)] {
            let (slope, error) = trend.slope ?? (0, 0)
            let isFlat = abs(slope) <= 3 * error || abs(trend.rise) <= 0.01 * trend.mean
            if !isFlat {
                faults.append("\(name) grows by \(LoadReport.number(slope)) ± \(LoadReport.number(error)) bytes a call")
            }
            report.line(
                "  \(name): \(LoadReport.number(trend.mean / 1_024)) KiB, slope \(LoadReport.number(slope)) ± "
                    + "\(LoadReport.number(error)) bytes per call")
            report.figure(
                "cycles_\(name)_bytes_per_call", slope, "bytes",
                [("error", LoadReport.number(error)), ("calls", "\(total)"), ("mean", LoadReport.number(trend.mean))])
        }
        let cost = seconds / Double(total) * 1e6
        report.line("  \(total) calls, \(LoadReport.number(cost)) µs each, \(rig.forwarded) packets forwarded")
        report.figure("cycles_us_per_call", cost, "us", [("calls", "\(total)")])
        if rig.forwarded < UInt64(4 * total) {
            faults.append("\(rig.forwarded) packets were forwarded in \(total) calls")
        }
        report.count("cycles", passed: total, failed: faults.count, faults: faults)
    }
}

/// One conductor and one engine that carry out what each other says. Keys are given as a handshake would have; the address is
/// learnt by a real check.
final class CycleRig {
    private let conductor: Conductor
    private let engine: MediaEngine
    private var now = Instant(nanoseconds: 1_000_000_000_000)
    private var requests: UInt64 = 0
    private var number: UInt64 = 0
    private let worker = WorkerID(index: 0, epoch: 1)
    private let offers: [(bytes: [UInt8], ssrc: UInt32)]
    private var made: [TransportConfiguration] = []
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 2_048)
    private(set) var forwarded: UInt64 = 0
    private static let keys = SRTPKeys(
        profile: .aeadAES128GCM, receiveKey: [UInt8](repeating: 1, count: 16),
        receiveSalt: [UInt8](repeating: 2, count: 12), sendKey: [UInt8](repeating: 3, count: 16),
        sendSalt: [UInt8](repeating: 4, count: 12))

    init(seed: UInt64) throws {
        var configuration = ConductorConfiguration()
        // An hour's ended rooms would be the whole run: here they are forgotten after the shortest time there is.
        configuration.retention = ConductorConfiguration.participantsLook
        conductor = Conductor(
            configuration: configuration, random: .seeded(seed), restoring: [], idempotency: [], nextSeq: 1,
            isSameBoot: true, knownEnded: { _ in nil })
        engine = MediaEngine(configuration: EngineConfiguration(), random: .seeded(seed &+ 1), now: now)
        offers = [UInt32(0x1111_0001), 0x1111_0002].map { ssrc in
            var options = SimulatedClient.Options()
            options.dialect = .libwebrtc
            options.hasVideo = false
            options.audioSSRC = ssrc
            return (SimulatedClient(options, address: .none).offer(), ssrc)
        }
        decide(
            .workerConnected(
                WorkerHello(
                    worker: worker, processID: 1,
                    endpoint: WorkerEndpoint(
                        candidates: [.init(address: "192.0.2.1", port: 40_000)],
                        fingerprint: [UInt8](repeating: 7, count: 32)), transports: [], news: [])))
    }

    deinit { buffer.deallocate() }

    /// What is still there after the last call but should not be.
    var leftovers: [String] {
        var faults = conductor.checkInvariants()
        if engine.transportCount != 0 { faults.append("\(engine.transportCount) transports are left") }
        let counts = conductor.counts
        if counts.initiatedRooms + counts.ongoingRooms != 0 { faults.append("rooms are left: \(counts)") }
        return faults
    }

    func cycle() throws {
        number += 1
        made = []
        var specification = RoomSpecification(id: nil, kind: .peer, media: .audio)
        specification.ring = RingSpecification(caller: "alice\(number % 1_000)", callees: ["ben\(number % 1_000)"])
        let created = ask(.server(keyID: "k"), .createRoom(specification))
        guard case .created(let room, _)? = created else { throw LoadFailure("create: \(created as Any)") }
        let alice = principal("alice\(number % 1_000)", room.id)
        let ben = principal("ben\(number % 1_000)", room.id)
        _ = ask(ben, .ringing(room.id))
        _ = ask(alice, .prepare(room.id, state: .prepared, offer: offers[0].bytes, joinOnAnswer: true))
        let prepared = ask(ben, .prepare(room.id, state: .prepared, offer: offers[1].bytes))
        guard case .prepared(let session, _, _, _)? = prepared, made.count == 2 else {
            throw LoadFailure("prepare: \(prepared as Any)")
        }
        for (side, transport) in made.enumerated() { connect(transport, side) }
        let joined = ask(ben, .join(room.id, session, endOthers: false, takeover: false))
        guard case .joined? = joined else { throw LoadFailure("join: \(joined as Any)") }
        for packet in 0..<4 { speak(made[0], side: 0, packet: UInt64(packet)) }
        let left = ask(ben, .leave(room.id, session))
        guard case .done? = left else { throw LoadFailure("leave: \(left as Any)") }
        now += .seconds(1)
        if conductor.deadline <= now { decide(.timer) }
        if engine.deadline <= now { engine.advance(to: now) }
        settle()
    }

    private func principal(_ uid: String, _ room: RoomID) -> Principal {
        .participant(ParticipantIdentity(uid: uid, device: "phone", room: room, grants: .standard))
    }

    private func ask(_ principal: Principal, _ request: ControlRequest) -> ControlReply? {
        requests += 1
        return decide(.request(RequestID(requests), principal, request)).replies.first?.reply
    }

    @discardableResult
    private func decide(_ input: ConductorInput) -> ConductorTurn {
        let turn = conductor.decide(input, now: now, wallClockMs: 1_767_225_600_000 + now.nanoseconds / 1_000_000)
        for (_, command) in turn.commands {
            if case .create(let configuration) = command { made.append(configuration) }
            engine.apply(command, now: now)
        }
        settle()
        return turn
    }

    private func settle() {
        let batch = engine.transmit
        for index in 0..<batch.count {
            let start = batch.slots + index * TransmitBatch.slotByteCount
            // RTP, and neither STUN nor RTCP.
            if start[0] >> 6 == 2, !(192...223).contains(start[1]) { forwarded += 1 }
        }
        engine.transmit.removeAll()
        _ = engine.takeHandshakeRequests()
        for news in engine.takeNews() { decide(.news(worker, news)) }
    }

    private func peer(_ side: Int) -> PeerAddress {
        PeerAddress(ipv4: 0x0A00_0000 + UInt32(truncatingIfNeeded: number % 60_000), port: UInt16(5_000 + side))
    }

    private func connect(_ transport: TransportConfiguration, _ side: Int) {
        var check = TestCheck(
            transactionID: STUNTransactionID(high: UInt32(side), low: number),
            receiverUfrag: transport.localICE.ufrag, senderUfrag: transport.remoteICE.ufrag,
            password: transport.localICE.password)
        check.nominates = true
        receive(check.bytes, side)
        engine.receive(.established(transport.participant, Self.keys), now: now)
        settle()
    }

    private func speak(_ transport: TransportConfiguration, side: Int, packet: UInt64) {
        guard let section = transport.sections.first else { return }
        let cipher = SRTPCipher.create(
            profile: Self.keys.profile, masterKey: Self.keys.receiveKey, masterSalt: Self.keys.receiveSalt)
        defer { cipher.destroy() }
        let (ssrc, sequence) = (offers[side].ssrc, 2_000 + packet)
        var header: [UInt8] = [0x80, section.payloadType, UInt8(sequence >> 8), UInt8(sequence & 0xFF), 0, 0, 0, 1]
        header += [UInt8(ssrc >> 24), UInt8(ssrc >> 16 & 0xFF), UInt8(ssrc >> 8 & 0xFF), UInt8(ssrc & 0xFF)]
        receive(
            cipher.sealed(header: header, payload: [UInt8](repeating: 0x78, count: 80), ssrc: ssrc, index: sequence),
            side)
        settle()
    }

    private func receive(_ bytes: [UInt8], _ side: Int) {
        bytes.withUnsafeBufferPointer { source in
            if let base = source.baseAddress { buffer.update(from: base, count: bytes.count) }
        }
        engine.receive(buffer, count: bytes.count, from: peer(side), local: 0, now: now)
    }
}
