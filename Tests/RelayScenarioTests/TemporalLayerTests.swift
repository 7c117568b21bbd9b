import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Temporal layers of VP9 and AV1 in a group, over a path that carries about two thirds of them. VP8's are in `LayerTests`.
@Suite("Temporal layers") final class TemporalLayerTests {
    private let scene: CallScene
    private let sender: CallScene.Participant
    private let receiver: CallScene.Participant
    private let section: ClientSection
    private var number: UInt16 = 4_000
    private var structure = DependencyStructure.create()
    private static let order: [UInt8] = [0, 2, 1, 2]

    init() throws {
        // Remade for the codec in `call`.
        scene = try CallScene()
        (sender, receiver) = try Self.call(in: scene, .av1)
        section = try #require(sender.client.sections.first { $0.kind == .video })
    }

    deinit { structure.destroy() }

    private static func call(
        in scene: CallScene, _ codec: MediaCodec
    ) throws -> (CallScene.Participant, CallScene.Participant) {
        let room = scene.makeRoom()
        let sender = try scene.prepare(
            scene.makeClient {
                $0.videoCodec = codec
                $0.sendsAtOnce = false
            }, in: room, kind: .group, joins: true)
        let receiver = try scene.prepare(
            scene.makeClient {
                $0.videoCodec = codec
                $0.sendsAtOnce = false
            }, in: room, kind: .group, joins: true)
        scene.run(for: .seconds(1))
        return (sender, receiver)
    }

    /// One picture in five packets of 1,000 bytes: about 1 Mbit/s at 25 pictures a second.
    private func send(
        _ picture: Int, from sender: CallScene.Participant, in scene: CallScene, descriptor: [UInt8]?,
        payload: (_ part: Int) -> [UInt8]
    ) {
        for part in 0..<5 {
            // The two-byte form: the structure has more than 16 bytes.
            var elements: [UInt8] = [section.extensions[.mid], UInt8(section.mid.utf8.count)] + Array(section.mid.utf8)
            if var descriptor {
                // Start and end of the frame.
                descriptor[0] = descriptor[0] & 0x3F | (part == 0 ? 0x80 : 0) | (part == 4 ? 0x40 : 0)
                if part > 0 { descriptor = Array(descriptor.prefix(3)) }
                elements += [section.extensions[.dependencyDescriptor], UInt8(descriptor.count)] + descriptor
            }
            while !elements.count.isMultiple(of: 4) { elements.append(0) }
            let marker: UInt8 = part == 4 ? 0x80 : 0
            var header: [UInt8] = [0x90, marker | section.payloadType, UInt8(number >> 8), UInt8(number & 0xFF)]
            let timestamp = UInt32(picture) * 3_600
            header += (0..<4).map { UInt8(truncatingIfNeeded: timestamp >> (24 - 8 * $0)) } + [0, 0, 0, 9]
            header += [0x10, 0x00, 0, UInt8(elements.count / 4)] + elements
            number &+= 1
            let packet = header + payload(part) + [UInt8](repeating: 1, count: 1_000)
            scene.act(sender.client) { $0.sendProtected(rtp: packet, headerByteCount: header.count) }
        }
        scene.run(for: .milliseconds(40))
    }

    private func narrow(_ scene: CallScene, to receiver: CallScene.Participant, _ rate: Double?) {
        var quality = VirtualNetwork.Quality.perfect
        quality.rate = rate
        scene.network.setQuality(quality, from: CallScene.relayAddress, to: receiver.client.address)
    }

    /// Whole pictures only behind the first marker, each with one marker at its end, and numbers without a gap.
    private func expectWhole(_ packets: ArraySlice<ReceivedStream.Packet>) {
        var count = 0
        for packet in packets.drop(while: { !$0.marker }).dropFirst() {
            count += 1
            if packet.marker {
                #expect(count == 5)
                count = 0
            }
        }
        for (before, after) in zip(packets, packets.dropFirst()) { #expect(after.sequence == before.sequence + 1) }
    }

    @Test("AV1: by the dependency descriptor whole upper pictures are left out, and come back at a switch")
    func av1() throws {
        let key = try #require(hexBytes("800001800214eaa860414d141020842701df010d"))
        func descriptor(_ picture: Int) -> [UInt8] {
            // Templates of that structure: a key picture, T0, T1, T2 after T0, T2 after T1.
            let template: UInt8 = picture == 0 ? 0 : [1, 3, 2, 4][picture % 4]
            let frame = UInt16(picture + 1)
            return [template, UInt8(frame >> 8), UInt8(frame & 0xFF)] + (picture == 0 ? Array(key.dropFirst(3)) : [])
        }
        func pass(_ pictures: Range<Int>) {
            for picture in pictures {
                send(picture, from: sender, in: scene, descriptor: descriptor(picture)) { part in
                    [picture == 0 && part == 0 ? 0x18 : 0x10, 0x30]
                }
            }
        }
        /// Temporal layers of the pictures that came lately, in order.
        func layers() throws -> [UInt8] {
            let stream = try #require(receiver.client.stream(.video))
            return stream.sorted.suffix(100).filter(\.marker).compactMap { packet in
                let element = packet.extensions[section.extensions[.dependencyDescriptor]] ?? []
                var probe = key
                _ = DependencyDescriptor(probe.span, offset: 0, byteCount: probe.count, structure: &structure)
                probe = element
                return DependencyDescriptor(
                    probe.span, offset: 0, byteCount: probe.count, structure: &structure)?.temporalLayer
            }
        }
        pass(0..<50)
        #expect(try layers().contains(2))
        narrow(scene, to: receiver, 700_000)
        pass(50..<400)
        #expect(try !layers().contains(2))
        #expect(try layers().contains(0))
        expectWhole(try #require(receiver.client.stream(.video)).sorted.suffix(100))
        narrow(scene, to: receiver, nil)
        pass(400..<900)
        #expect(try layers().contains(2))
        expectWhole(try #require(receiver.client.stream(.video)).sorted.suffix(100))
    }

    @Test("VP9: upper pictures are left out whole, and picture ids keep the gaps that references count by")
    func vp9() throws {
        let scene = try CallScene()
        let (sender, receiver) = try Self.call(in: scene, .vp9)
        func pass(_ pictures: Range<Int>) {
            for picture in pictures {
                let layer = picture == 0 ? 0 : Self.order[picture % 4]
                let base = UInt8(truncatingIfNeeded: picture / 4)
                send(picture, from: sender, in: scene, descriptor: nil) { part in
                    var flags: UInt8 = picture == 0 ? 0xA0 : 0xE0
                    if part == 0 { flags |= 0x08 }
                    if part == 4 { flags |= 0x04 }
                    let id = [0x80 | UInt8(picture >> 8), UInt8(picture & 0xFF)]
                    return [flags] + id + [layer << 5 | 0x10, base, 0x86]
                }
            }
        }
        func pictures() throws -> [(id: Int, layer: Int)] {
            let stream = try #require(receiver.client.stream(.video))
            return stream.sorted.suffix(100).filter(\.marker).compactMap { packet in
                VP9Descriptor(packet.payload.span).map { (Int($0.pictureID), Int($0.temporalLayer)) }
            }
        }
        pass(0..<50)
        #expect(try pictures().contains { $0.layer == 2 })
        narrow(scene, to: receiver, 700_000)
        pass(50..<400)
        let narrowed = try pictures()
        #expect(narrowed.allSatisfy { $0.layer < 2 && Int(Self.order[$0.id % 4]) == $0.layer })
        #expect(!narrowed.isEmpty)
        expectWhole(try #require(receiver.client.stream(.video)).sorted.suffix(100))
        narrow(scene, to: receiver, nil)
        pass(400..<900)
        #expect(try pictures().contains { $0.layer == 2 })
    }
}
