import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Cases R04 and R05: what a switch does to picture ids, frame numbers and time, packet by packet.
@Suite("Cases of layers") struct LayerCaseTests {
    /// A sender whose packets are made by hand, in two streams, and its receiver.
    private final class Scene {
        let scene: CallScene
        let sender: CallScene.Participant
        let receiver: CallScene.Participant
        private var numbers: [UInt32: UInt16] = [1: 5_000, 2: 9_000]

        init(streamIDs: [String] = ["a", "b"]) throws {
            scene = try CallScene()
            let room = scene.makeRoom()
            sender = try scene.prepare(
                scene.makeClient {
                    $0.streamIDs = streamIDs
                    $0.sendsAtOnce = false
                }, in: room, kind: .group, joins: true)
            receiver = try scene.prepare(
                scene.makeClient { $0.sendsTransportFeedback = false }, in: room, kind: .group, joins: true)
            scene.run(for: .seconds(1))
        }

        /// One packet of stream 1 ("a") or 2 ("b"); `descriptor`: the VP8 payload descriptor.
        func send(
            _ stream: UInt32, descriptor: [UInt8], isKey: Bool = false, timestamp: UInt32, frame: UInt16? = nil,
            byteCount: Int = 100
        ) {
            guard let section = sender.client.sections.first(where: { $0.kind == .video }) else { return }
            let number = numbers[stream] ?? 0
            numbers[stream] = number &+ 1
            var elements: [UInt8] = []
            if section.extensions[.rid] != 0 {
                elements += [section.extensions[.rid] << 4, stream == 1 ? UInt8(ascii: "a") : UInt8(ascii: "b")]
            }
            elements += [section.extensions[.mid] << 4] + Array(section.mid.utf8)
            if let frame {
                elements += [section.extensions[.dependencyDescriptor] << 4 | 2, 0xC0]
                elements += [UInt8(frame >> 8), UInt8(frame & 0xFF)]
            }
            while !elements.count.isMultiple(of: 4) { elements.append(0) }
            var header: [UInt8] = [0x90, 0x80 | section.payloadType, UInt8(number >> 8), UInt8(number & 0xFF)]
            for word in [timestamp, stream] {
                header += (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * $0)) }
            }
            header += [0xBE, 0xDE, 0, UInt8(elements.count / 4)] + elements
            let head: [UInt8] = isKey ? [0x10, 2, 0, 0x9D, 1, 0x2A, 0x40, 1, 0xF0, 0] : [0x11, 2, 0]
            let packet = header + descriptor + head + [UInt8](repeating: 7, count: byteCount)
            scene.act(sender.client) { $0.sendProtected(rtp: packet, headerByteCount: header.count) }
            scene.run(for: .milliseconds(40))
        }

        func report(_ stream: UInt32, seconds: UInt64, timestamp: UInt32) {
            let report = TestRTCP.senderReport(
                ssrc: stream, ntp: seconds << 32, rtp: timestamp, packets: 1, octets: 1, blocks: [])
            scene.act(sender.client) { $0.sendRTCP([report]) }
            scene.run(for: .milliseconds(20))
        }

        var received: [ReceivedStream.Packet] {
            get throws { try #require(receiver.client.stream(.video)).sorted }
        }

        /// Begins with stream 1 and lets the relay measure both, so that it waits for a key frame of stream 2.
        func warmUp(_ first: [UInt8], _ second: [UInt8], from timestamp: (UInt32, UInt32) = (1_000, 1_000)) {
            send(1, descriptor: first, isKey: true, timestamp: timestamp.0)
            for step in 1...30 {
                send(1, descriptor: first, timestamp: timestamp.0 &+ UInt32(step) * 3_600)
                send(2, descriptor: second, timestamp: timestamp.1 &+ UInt32(step) * 3_600, byteCount: 300)
            }
        }
    }

    /// X and I with 15 bits.
    private func long(_ id: UInt16) -> [UInt8] { [0x90, 0x80, 0x80 | UInt8(id >> 8), UInt8(id & 0xFF)] }
    /// X and I with 7 bits.
    private func short(_ id: UInt8) -> [UInt8] { [0x90, 0x80, id] }
    private let none: [UInt8] = [0x10]

    private func startsKeyFrame(_ packet: ReceivedStream.Packet) -> Bool {
        VP8Descriptor.startsKeyFrame(packet.payload.span)
    }

    private func idByteCount(_ packet: ReceivedStream.Packet) -> Int? {
        VP8Descriptor(packet.payload.span)?.pictureIDByteCount
    }

    private func id(_ packet: ReceivedStream.Packet) -> Int? {
        let descriptor = VP8Descriptor(packet.payload.span)
        return descriptor.flatMap { $0.pictureIDByteCount > 0 ? Int($0.pictureID) : nil }
    }

    @Test("R04: one stream's picture ids pass unchanged, over their wraps, in both widths and with none")
    func unchanged() throws {
        let scene = try Scene(streamIDs: [])
        let descriptors = [32_766, 32_767, 0, 1].map { long($0) } + [126, 127, 0].map { short($0) } + [none]
        for (step, descriptor) in descriptors.enumerated() {
            scene.send(1, descriptor: descriptor, isKey: step == 0, timestamp: UInt32(step) * 3_600)
        }
        let found = try scene.received.map { id($0) }
        #expect(found == [32_766, 32_767, 0, 1, 126, 127, 0, nil])
    }

    @Test("R04: picture ids go on after the last one over a switch, modulo 2^15, and the switch is a key frame")
    func goOn() throws {
        let scene = try Scene()
        scene.warmUp(long(32_760), long(4_999))
        for step: UInt16 in 0..<4 {
            scene.send(1, descriptor: long((32_766 + step) & 0x7FFF), timestamp: 200_000 + UInt32(step) * 3_600)
        }
        scene.send(2, descriptor: long(5_000), isKey: true, timestamp: 300_000)
        scene.send(2, descriptor: long(5_001), timestamp: 303_600)
        let found = try scene.received.suffix(6)
        #expect(found.map { id($0) } == [32_766, 32_767, 0, 1, 2, 3])
        #expect(startsKeyFrame(found[found.endIndex - 2]))
        let numbers = found.map(\.sequence)
        #expect(numbers == Array(numbers[numbers.startIndex]..<numbers[numbers.startIndex] + 6))
    }

    @Test("R04: 7-bit ids go on modulo 2^7, in the width of the source")
    func sevenBits() throws {
        let scene = try Scene()
        scene.warmUp(short(120), short(9))
        for step: UInt8 in 0..<2 {
            scene.send(1, descriptor: short(126 + step), timestamp: 200_000 + UInt32(step) * 3_600)
        }
        scene.send(2, descriptor: short(10), isKey: true, timestamp: 300_000)
        scene.send(2, descriptor: short(11), timestamp: 303_600)
        let found = try scene.received.suffix(4)
        #expect(found.map { id($0) } == [126, 127, 0, 1])
        #expect(found.allSatisfy { idByteCount($0) == 1 })
    }

    @Test("R04: from a source without ids to one with them, nothing is counted on")
    func fromNone() throws {
        let scene = try Scene()
        scene.warmUp(none, long(99))
        scene.send(2, descriptor: long(100), isKey: true, timestamp: 300_000)
        scene.send(2, descriptor: long(101), timestamp: 303_600)
        #expect(try scene.received.suffix(3).map { id($0) } == [nil, 100, 101])
    }

    @Test("R04: a descriptor that is cut short passes as it is and ends nothing")
    func cut() throws {
        let scene = try Scene(streamIDs: [])
        scene.send(1, descriptor: long(1), isKey: true, timestamp: 0)
        scene.send(1, descriptor: [0x90, 0x80], timestamp: 3_600, byteCount: 0)
        scene.send(1, descriptor: long(3), timestamp: 7_200)
        #expect(try scene.received.count == 3)
    }

    @Test("frame numbers of the dependency descriptor go on over a switch")
    func frameNumbers() throws {
        let scene = try Scene()
        scene.warmUp(long(1), long(1))
        let element = try #require(scene.receiver.client.sections.first { $0.kind == .video })
            .extensions[.dependencyDescriptor]
        scene.send(1, descriptor: long(2), timestamp: 200_000, frame: 65_534)
        scene.send(1, descriptor: long(3), timestamp: 203_600, frame: 65_535)
        scene.send(2, descriptor: long(7), isKey: true, timestamp: 300_000, frame: 500)
        scene.send(2, descriptor: long(8), timestamp: 303_600, frame: 503)
        let found = try scene.received.suffix(4).map { $0.extensions[element] }
        #expect(found == [[0xC0, 0xFF, 0xFE], [0xC0, 0xFF, 0xFF], [0xC0, 0, 0], [0xC0, 0, 3]])
    }

    @Test("R05: at a switch time goes on by both streams' reports, not by when the key frame came")
    func time() throws {
        let scene = try Scene()
        scene.warmUp(long(1), long(1), from: (338_400 - 3_600 * 10, 6_888_400))
        scene.report(1, seconds: 100, timestamp: 400_000)
        scene.report(2, seconds: 100, timestamp: 6_950_000)
        scene.send(1, descriptor: long(2), timestamp: 446_400)
        scene.scene.run(for: .milliseconds(200))
        scene.send(2, descriptor: long(3), isKey: true, timestamp: 7_000_000)
        let found = try scene.received.suffix(2).map(\.timestamp)
        #expect(found[1] &- found[0] == 3_600)
    }

    @Test("R05: reports that put the key frame before the last picture cost it one tick, not its life")
    func negative() throws {
        let scene = try Scene()
        scene.warmUp(long(1), long(1), from: (338_400 - 3_600 * 10, 6_888_400))
        scene.report(1, seconds: 100, timestamp: 400_000)
        scene.report(2, seconds: 100, timestamp: 6_950_000)
        scene.send(1, descriptor: long(2), timestamp: 446_400)
        scene.send(2, descriptor: long(3), isKey: true, timestamp: 6_950_000 + 46_400 - 3_000)
        let found = try scene.received.suffix(2)
        #expect(found[found.endIndex - 1].timestamp &- found[found.startIndex].timestamp == 1)
        #expect(startsKeyFrame(found[found.endIndex - 1]))
    }

    @Test("R05: without reports arrival tells, and time goes on over its wrap")
    func arrival() throws {
        let scene = try Scene()
        scene.warmUp(long(1), long(1), from: (0xFFFF_FFF0 &- 3_600 * 32, 77))
        scene.send(1, descriptor: long(2), timestamp: 0xFFFF_FFF0)
        scene.send(2, descriptor: long(3), isKey: true, timestamp: 0xFFFF_FFFF)
        scene.send(2, descriptor: long(4), timestamp: 3_599)
        let found = try scene.received.suffix(3).map(\.timestamp)
        #expect((1...9_000).contains(found[1] &- found[0]), "\(found[1] &- found[0])")
        #expect(found[2] &- found[1] == 3_600)
    }

    @Test("R05: packets that alternate between two SSRCs of one stream do not flip the source")
    func alternating() throws {
        let scene = try Scene(streamIDs: [])
        scene.send(1, descriptor: long(0), isKey: true, timestamp: 0)
        for step: UInt32 in 1...20 {
            scene.send(1, descriptor: long(UInt16(step)), timestamp: step * 3_600)
            scene.send(2, descriptor: long(500 + UInt16(step)), timestamp: 900_000 + step * 3_600)
        }
        let found = try scene.received
        let sources = found.suffix(20).map { (id($0) ?? 0) > 499 }
        #expect(zip(sources, sources.dropFirst()).allSatisfy { $0 == $1 })
    }
}
