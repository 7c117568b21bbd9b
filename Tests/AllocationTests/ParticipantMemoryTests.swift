import CMallocCount
import RTPCore
import RelayTesting
import Testing

@testable import RelayCore

/// What one participant costs the worker's engine: its part of the tables and what is allocated for it alone. Not in here:
/// OpenSSL's part while it connects, and the 0.65 KB that repeat its last flight (`DTLSRemnant`).
@Suite("Memory of a participant") struct ParticipantMemoryTests {
    private static let count = 200
    private static let now = Instant(nanoseconds: 1_000_000_000_000)

    /// An engine with participants of video calls, two in a room, in the state that a closure brings them into.
    private final class Calls {
        let engine = MediaEngine(configuration: EngineConfiguration(), random: .seeded(1), now: now)

        func configuration(_ number: Int) -> TransportConfiguration {
            var sound = MediaSection(index: 0, mid: "0", kind: .audio, codec: .opus, payloadType: 111)
            var picture = MediaSection(index: 1, mid: "1", kind: .video, codec: .vp8, payloadType: 96)
            sound.feedback = [.transportCC]
            picture.feedback = [.nack, .pli, .transportCC, .remb]
            picture.rtxPayloadType = 97
            picture.sendRTXSSRC = 0x4000_0000 + UInt32(number)
            picture.signalledRTXSSRCs = [0x5000_0000 + UInt32(number)]
            func complete(_ section: inout MediaSection, ssrc: UInt32) {
                section.clientSends = true
                section.clientReceives = true
                section.extensions[.mid] = 4
                section.extensions[.transportCC] = 3
                section.signalledSSRCs = [ssrc + UInt32(number)]
                section.sendSSRC = ssrc + 0x1000_0000 + UInt32(number)
            }
            complete(&sound, ssrc: 0x1000_0000)
            complete(&picture, ssrc: 0x3000_0000)
            return TransportConfiguration(
                participant: ParticipantHandle(UInt64(number) + 1), room: RoomHandle(UInt64(number / 2) + 1),
                isPeerRoom: true, joinsWhenReady: false,
                localICE: ICECredentials(ufrag: "r\(1_000_000 + number)", password: "relay-password-0123456789"),
                remoteICE: ICECredentials(ufrag: "c\(1_000_000 + number)", password: "client-password-012345678"),
                fingerprints: [CertificateFingerprint(algorithm: .sha256, bytes: [UInt8](repeating: 1, count: 32))],
                sections: [sound, picture])
        }

        func prepare(_ number: Int) {
            engine.apply(.create(configuration(number)), now: now)
            var check = TestCheck(
                transactionID: STUNTransactionID(high: 1, low: UInt64(number)), receiverUfrag: "r\(1_000_000 + number)",
                senderUfrag: "c\(1_000_000 + number)", password: "relay-password-0123456789")
            check.nominates = true
            var bytes = check.bytes
            bytes.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { return }
                engine.receive(
                    base, count: buffer.count, from: PeerAddress(ipv4: 0x0A00_0001, port: UInt16(10_000 + number)),
                    local: 0, now: now)
            }
            let keys = SRTPKeys(
                profile: .aeadAES128GCM, receiveKey: [UInt8](repeating: 1, count: 16),
                receiveSalt: [UInt8](repeating: 2, count: 12), sendKey: [UInt8](repeating: 3, count: 16),
                sendSalt: [UInt8](repeating: 4, count: 12))
            engine.receive(.established(ParticipantHandle(UInt64(number) + 1), keys), now: now)
            settle()
        }

        func join(_ number: Int) {
            engine.apply(.join(ParticipantHandle(UInt64(number) + 1)), now: now)
            settle()
        }

        private func settle() {
            engine.transmit.removeAll()
            _ = engine.takeNews()
            _ = engine.takeHandshakeRequests()
        }
    }

    /// Bytes on the heap that each of `count` participants took.
    private static func heap(_ body: (Int) -> Void) -> Int {
        let before = malloc_held()
        for number in 0..<count { body(number) }
        return Int(malloc_held() - before) / count
    }

    @Test("a prepared participant of a video call holds at most 8 KB, two key schedules included") func prepared() {
        let calls = Calls()
        // Arrays and dictionaries grow by doubling: what the first ones make them hold is not the later ones' to pay.
        let heap = Self.heap(calls.prepare)
        let tables = MediaEngine.tableByteCount(tracks: 2, slots: 2)
        print("prepared participant: \(heap) B on the heap, \(tables) B of tables")
        #expect(calls.engine.transportCount == Self.count)
        #expect(heap + tables <= 8_192)
    }

    @Test("two joined participants of a video call hold at most 64 KB, their packet history left out") func joined() {
        let calls = Calls()
        let prepared = Self.heap(calls.prepare)
        let joining = Self.heap(calls.join)
        let tables = MediaEngine.tableByteCount(tracks: 2, slots: 2)
        print("joined participant: \(prepared + joining) B on the heap, \(tables) B of tables")
        #expect(2 * (prepared + joining + tables) <= 65_536)
    }

    @Test("the records that a packet touches are at most 1 KB for one medium of a participant") func hotRecords() {
        let parts = [
            ("transport", Transport.hotByteCount, MemoryLayout<Transport>.size),
            ("path", MemoryLayout<Path>.size, MemoryLayout<Path>.size),
            ("source", Source.hotByteCount, MemoryLayout<Source>.size),
            ("track", Track.hotByteCount, MemoryLayout<Track>.size),
            ("slot", Subscription.hotByteCount, MemoryLayout<Subscription>.size),
        ]
        for (name, hot, all) in parts { print("\(name): \(hot) of \(all) B") }
        #expect(parts.reduce(0) { $0 + $1.1 } <= 1_024)
    }
}
