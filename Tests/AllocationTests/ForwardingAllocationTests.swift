import CMallocCount
import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Allocations are counted, not guessed: malloc itself is replaced in this program and counts by thread.
@Suite("Allocations") struct ForwardingAllocationTests {
    /// Media of a running call, caught before the engine sees it.
    private struct Traffic {
        let scene: CallScene
        let sender: CallScene.Participant
        var datagrams: [[UInt8]] = []

        /// - Parameters:
        ///   - others: receivers in a group room; nil: the other one of a peer room.
        ///   - red: the sender repeats two packets in each of sound, and the receiver loses enough to get as many.
        init(packetCount: Int, others: Int? = nil, streamIDs: [String] = [], red: Bool = false) throws {
            scene = try CallScene()
            if let others {
                let room = scene.makeRoom()
                let people = try (0...others).map { [scene] _ in
                    let client = scene.makeClient {
                        $0.streamIDs = streamIDs
                        if !streamIDs.isEmpty { $0.temporalLayerCount = 3 }
                    }
                    return try scene.prepare(client, in: room, kind: .group, joins: true)
                }
                sender = people[0]
            } else {
                let (first, second) = try scene.makePair {
                    $0.offersRED = red
                    $0.repeatedPackets = 2
                    $0.hasVideo = !red
                }
                sender = first
                if red {
                    scene.network.setQuality(
                        .init(loss: 0.2), from: CallScene.relayAddress, to: second.client.address)
                    scene.run(for: .seconds(6))
                }
            }
            scene.run(for: .seconds(2))
            var now = scene.now
            while datagrams.count < packetCount {
                now = now + .milliseconds(5)
                sender.client.advance(to: now)
                datagrams += sender.client.takeDatagrams().map(\.bytes).filter { bytes in
                    DatagramKind.classify(firstByte: bytes[0], secondByte: bytes[1], count: bytes.count) == .rtp
                }
            }
        }

        /// Allocations while the engine takes `range` of the datagrams, one by one, and what it sends is thrown away.
        func allocations(_ range: Range<Int>) -> UInt64 {
            let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: TransmitBatch.slotByteCount)
            defer { buffer.deallocate() }
            let engine = scene.engine
            let now = scene.now
            let before = malloc_count()
            for index in range {
                datagrams[index].withUnsafeBufferPointer { bytes in
                    guard let base = bytes.baseAddress else { return }
                    buffer.update(from: base, count: bytes.count)
                    engine.receive(buffer, count: bytes.count, from: sender.client.address, local: 0, now: now)
                }
                engine.finishBatch(now: now)
                engine.transmit.removeAll()
            }
            return malloc_count() - before
        }
    }

    @Test("the counter counts") func control() {
        let before = malloc_count()
        let array = [UInt8](repeating: UInt8.random(in: 0...255), count: 10_000)
        #expect(malloc_count() - before >= 1)
        #expect(array.count == 10_000)
    }

    // An unoptimised build allocates iterators of ranges, which no user's build does.
    #if !DEBUG
        @Test("forwarding 1,000 audio and video packets of a call allocates nothing") func forwarding() throws {
            let traffic = try Traffic(packetCount: 1_200)
            // The first packets may grow what is kept, such as the list of news.
            _ = traffic.allocations(0..<200)
            let forwarded = traffic.scene.engine.counters.packetsForwarded
            let allocations = traffic.allocations(200..<1_200)
            #expect(traffic.scene.engine.counters.packetsForwarded - forwarded == 1_000)
            #expect(allocations == 0)
        }

        @Test("taking 1,000 RED packets apart, taking lost ones out of them and writing RED allocates nothing")
        func redundancy() throws {
            var traffic = try Traffic(packetCount: 1_200, red: true)
            _ = traffic.allocations(0..<200)
            // A fifth never comes.
            traffic.datagrams = traffic.datagrams.enumerated().filter { $0.offset < 200 || $0.offset % 5 > 0 }.map(
                \.element)
            let counters = traffic.scene.engine.counters
            let (made, recovered) = (counters.packetsMadeRedundant, counters.packetsRecovered)
            let allocations = traffic.allocations(200..<1_000)
            #expect(counters.packetsMadeRedundant - made == 800)
            #expect(counters.packetsRecovered - recovered >= 190)
            #expect(allocations == 0)
        }

        @Test("forwarding 1,000 packets of a simulcast to one of three receivers allocates nothing") func simulcast()
            throws
        {
            let traffic = try Traffic(packetCount: 1_200, others: 3, streamIDs: ["q", "h", "f"])
            _ = traffic.allocations(0..<200)
            let forwarded = traffic.scene.engine.counters.packetsForwarded
            let allocations = traffic.allocations(200..<1_200)
            #expect(traffic.scene.engine.counters.packetsForwarded - forwarded > 100)
            #expect(allocations == 0)
        }

        @Test("reading levels and forwarding 1,000 packets in a group of four allocates nothing") func group() throws {
            let traffic = try Traffic(packetCount: 1_200, others: 3)
            _ = traffic.allocations(0..<200)
            let forwarded = traffic.scene.engine.counters.packetsForwarded
            let allocations = traffic.allocations(200..<1_200)
            #expect(traffic.scene.engine.counters.packetsForwarded - forwarded >= 1_000)
            #expect(allocations == 0)
        }

        @Test("dropping 10,000 datagrams from an address that no check came from allocates nothing") func strangers()
            throws
        {
            let scene = try CallScene()
            _ = try scene.makePair()
            scene.run(for: .seconds(1))
            let stranger = PeerAddress(ipv4: 0x0A00_0042, port: 4_242)
            let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: TransmitBatch.slotByteCount)
            buffer.initialize(repeating: 0, count: TransmitBatch.slotByteCount)
            defer { buffer.deallocate() }
            let engine = scene.engine
            let now = scene.now
            // Makes the STUN ones a check without FINGERPRINT. Malformed ones are refused by a typed throw, which costs nothing, but
            // Swift Testing notes every throw in its own memory.
            for (offset, byte) in zip(2..., [0, 180, 0x21, 0x12, 0xA4, 0x42] as [UInt8]) { buffer[offset] = byte }
            let before = malloc_count()
            for number in 0..<10_000 {
                // RTP, RTCP, DTLS, STUN without sense, and what is nothing at all.
                switch number % 5 {
                case 0: (buffer[0], buffer[1]) = (0x80, 96)
                case 1: (buffer[0], buffer[1]) = (0x81, 201)
                case 2: buffer[0] = 22
                case 3: (buffer[0], buffer[1]) = (0, 1)
                default: buffer[0] = 79
                }
                engine.receive(buffer, count: 200, from: stranger, local: 0, now: now)
            }
            #expect(malloc_count() - before == 0)
            #expect(engine.transmit.count == 0)
            #expect(engine.counters[.rtpUnknownAddress] >= 2_000)
            #expect(engine.counters[.stunMalformed] >= 2_000)
        }
    #endif
}
