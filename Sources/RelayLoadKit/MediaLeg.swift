import Glibc
import RTPCore
import RelayCore
import RelayTesting

/// What a client sends and gets by way of one forwarder: keys, streams, numbers.
package final class MediaLeg {
    package static let headerByteCount = 24
    /// Sender and number, instant.
    package static let stampByteCount = 16
    /// Where the stamp is: behind what a decoder reads, so that receivers may be browsers.
    static let audioStamp = 2
    static let videoStamp = 1 + Picture.key.count

    /// A stream that it sends.
    package struct Outgoing {
        package var ssrc: UInt32
        package var payloadType: UInt8
        var isVideo: Bool
        var index: UInt64
        var time: UInt32
        var count: UInt32 = 0
        var octets: UInt32 = 0
        var pictures: UInt32 = 0
        var mid: UInt8
        /// Ids of the extensions; 0: none.
        var midID: UInt8
        var levelID: UInt8
        var transportCCID: UInt8
    }

    /// A stream that it gets.
    package struct Incoming {
        var ssrc: UInt32
        var estimator = PacketIndexEstimator()
        /// Index after the highest that came; 0: none came.
        var next: UInt64 = 0
    }

    package let client: LoadClient
    /// Where it sends to, and its media comes from.
    package var target: PeerAddress
    let sending: SRTPCipher
    let receiving: SRTPCipher
    package var keys: SRTPKeys
    package var outgoing: [Outgoing] = []
    var incoming: [Incoming] = []
    /// Payload type of repairs, which are not counted; 255: none.
    let repairType: UInt8
    /// Id of transport-wide numbers on what the forwarder sends; 0: it numbers nothing.
    let transportCCID: UInt8
    var transportNumber: UInt16 = 0
    var sampled = 0

    /// By way of the server: keys and numbers as negotiated; nil before there are any.
    package convenience init?(serverLegOf client: LoadClient) {
        guard let keys = client.control.dtls.keys else { return nil }
        self.init(client, keys: keys, isNegotiated: true)
    }

    /// By way of the limit: made-up keys, the same streams.
    package convenience init(limitLegOf client: LoadClient, _ random: inout RandomSource) {
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) } }
        self.init(
            client,
            keys: SRTPKeys(
                profile: .aeadAES128GCM, receiveKey: bytes(16), receiveSalt: bytes(12), sendKey: bytes(16),
                sendSalt: bytes(12)), isNegotiated: false)
    }

    private init(_ client: LoadClient, keys: SRTPKeys, isNegotiated: Bool) {
        self.client = client
        target = client.control.relayAddress
        self.keys = keys
        sending = .create(profile: keys.profile, masterKey: keys.sendKey, masterSalt: keys.sendSalt)
        receiving = .create(profile: keys.profile, masterKey: keys.receiveKey, masterSalt: keys.receiveSalt)
        let sections = client.control.sections
        repairType = sections.first { $0.rtxPayloadType != nil }?.rtxPayloadType ?? 255
        transportCCID =
            isNegotiated ? sections.first { $0.kind == .video && $0.receives }?.extensions[.transportCC] ?? 0 : 0
        for kind in MediaKind.allCases {
            guard let section = sections.first(where: { $0.kind == kind && $0.sends }),
                let ssrc = client.control.sendingSSRC(kind)
            else { continue }
            outgoing.append(
                Outgoing(
                    ssrc: ssrc, payloadType: section.payloadType, isVideo: kind == .video,
                    index: UInt64(1_024 + client.number * 37 % 20_000), time: ssrc,
                    mid: section.mid.utf8.first ?? UInt8(ascii: "0"), midID: section.extensions[.mid],
                    levelID: section.extensions[.audioLevel], transportCCID: section.extensions[.transportCC]))
        }
    }

    /// Its client's next reports tell of what it sent.
    func tellReports(now: Instant) {
        for stream in outgoing where stream.count > 0 {
            client.control.noteSent(
                stream.isVideo ? .video : .audio, packets: stream.count, octets: stream.octets, timestamp: stream.time,
                now: now)
        }
    }

    deinit {
        sending.destroy()
        receiving.destroy()
    }

    /// Makes a packet of stream `stream`, sealed, and returns its byte count. `payload` holds the pattern; its first bytes are
    /// written anew. `marker`: the last one of a picture; `isFirst`: the first one.
    @inline(__always) func makePacket(
        _ stream: Int, at slot: UnsafeMutablePointer<UInt8>, payload: UnsafeMutablePointer<UInt8>,
        payloadByteCount: Int, isFirst: Bool, marker: Bool, now: Int64
    ) -> Int {
        writeHeader(outgoing[stream], at: slot, marker: marker)
        let count = outgoing[stream].count
        if outgoing[stream].isVideo {
            // VP8: the first packet of a picture says so, and begins with it. All are key frames for a while, then few.
            let pictures = outgoing[stream].pictures
            payload[0] = isFirst ? 0x10 : 0
            if isFirst {
                let picture = pictures > 30 && !pictures.isMultiple(of: 60) ? Picture.delta : Picture.key
                picture.withUnsafeBufferPointer { bytes in
                    if let base = bytes.baseAddress { (payload + 1).update(from: base, count: bytes.count) }
                }
            }
            if marker { outgoing[stream].pictures += 1 }
        } else {
            payload[0] = 0x78
            payload[1] = 0
        }
        let stamp = payload + (outgoing[stream].isVideo ? Self.videoStamp : Self.audioStamp)
        Self.store(UInt64(client.number) << 32 | UInt64(count), at: stamp)
        Self.store(UInt64(bitPattern: now), at: stamp + 8)
        let total = sending.sealRTP(
            slot, headerByteCount: Self.headerByteCount, payload: payload, payloadByteCount: payloadByteCount,
            ssrc: outgoing[stream].ssrc, index: outgoing[stream].index)
        outgoing[stream].index += 1
        outgoing[stream].count += 1
        outgoing[stream].octets &+= UInt32(payloadByteCount)
        transportNumber &+= 1
        if marker { outgoing[stream].time &+= outgoing[stream].isVideo ? 2_400 : 960 }
        return total
    }

    /// A browser's header: MID, audio level or padding, transport-wide number; 24 bytes.
    @inline(__always) private func writeHeader(
        _ stream: Outgoing, at slot: UnsafeMutablePointer<UInt8>, marker: Bool
    ) {
        slot[0] = 0x90
        slot[1] = stream.payloadType | (marker && stream.isVideo ? 0x80 : 0)
        slot[2] = UInt8(truncatingIfNeeded: stream.index >> 8)
        slot[3] = UInt8(truncatingIfNeeded: stream.index)
        for byte in 0..<4 {
            slot[4 + byte] = UInt8(truncatingIfNeeded: stream.time >> UInt32(24 - 8 * byte))
            slot[8 + byte] = UInt8(truncatingIfNeeded: stream.ssrc >> UInt32(24 - 8 * byte))
        }
        slot[12] = 0xBE
        slot[13] = 0xDE
        slot[14] = 0
        slot[15] = 2
        slot[16] = stream.midID << 4
        slot[17] = stream.midID == 0 ? 0 : stream.mid
        slot[18] = stream.levelID << 4
        slot[19] = stream.levelID == 0 ? 0 : 0x80 | 25
        slot[20] = stream.transportCCID == 0 ? 0 : stream.transportCCID << 4 | 1
        slot[21] = stream.transportCCID == 0 ? 0 : UInt8(transportNumber >> 8)
        slot[22] = stream.transportCCID == 0 ? 0 : UInt8(transportNumber & 255)
        slot[23] = 0
    }

    @inline(__always) static func store(_ value: UInt64, at bytes: UnsafeMutablePointer<UInt8>) {
        UnsafeMutableRawPointer(bytes).storeBytes(of: value.bigEndian, as: UInt64.self)
    }

    @inline(__always) static func load(_ bytes: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(bigEndian: UnsafeRawPointer(bytes).loadUnaligned(as: UInt64.self))
    }
}
