import RTPCore
import RelayTesting
import Testing

@Suite("Layers of a packet")
struct PacketLayersTests {
    @Test("every VP8 payload's layers are its descriptor's", arguments: VectorFile("vp8").rows())
    func vp8(_ row: VectorRow) {
        let layers = PacketLayers(vp8: row.bytes.span)
        #expect(layers.startsPicture == (row["S"].bool == true && row["PID"].integer == 0))
        #expect(Int(layers.temporalLayer) == row["tid"].integer ?? 0)
        #expect(Int(layers.pictureID) == row["picture_id"].integer ?? 0)
        #expect(layers.isSwitchingPoint == row["y"].bool ?? false)
    }

    @Test("every VP9 payload's layers are its descriptor's", arguments: VectorFile("vp9").rows())
    func vp9(_ row: VectorRow) {
        let layers = PacketLayers(vp9: row.bytes.span)
        #expect(layers.startsPicture == (row["B"].bool == true && row["sid"].integer ?? 0 == 0))
        #expect(Int(layers.temporalLayer) == row["tid"].integer ?? 0)
        #expect(layers.isSwitchingPoint == row["u"].bool ?? false)
    }

    @Test("a payload that cannot be read says nothing")
    func unreadable() {
        let (cut, empty): ([UInt8], [UInt8]) = ([0x90, 0x80], [])
        let layers = [PacketLayers(vp8: cut.span), PacketLayers(vp9: empty.span)]
        #expect(layers == [PacketLayers(), PacketLayers()])
    }

    /// VP8 with TID and Y, a delta picture.
    private func vp8(temporal: UInt8, sync: Bool, isKey: Bool = false) -> PacketLayers {
        let payload: [UInt8] = [0x90, 0xE0, 0x05, 0x07, temporal << 6 | (sync ? 0x20 : 0), isKey ? 0x10 : 0x11]
        return PacketLayers(vp8: payload.span)
    }

    @Test("VP8: a lower limit holds at once, a higher one from a picture that refers to the base layer only")
    func vp8Limits() {
        #expect(vp8(temporal: 1, sync: false).temporalLimit(after: 2, wanted: 0, codec: .vp8) == 0)
        #expect(vp8(temporal: 1, sync: false).temporalLimit(after: 0, wanted: 2, codec: .vp8) == 0)
        #expect(vp8(temporal: 1, sync: true).temporalLimit(after: 0, wanted: 2, codec: .vp8) == 1)
        #expect(vp8(temporal: 2, sync: true).temporalLimit(after: 0, wanted: 2, codec: .vp8) == 0)
        #expect(vp8(temporal: 2, sync: true).temporalLimit(after: 1, wanted: 2, codec: .vp8) == 2)
        #expect(vp8(temporal: 0, sync: false, isKey: true).temporalLimit(after: 0, wanted: 2, codec: .vp8) == 2)
    }

    @Test("VP9: a higher limit holds from a switching point of a layer that is sent")
    func vp9Limits() {
        func picture(temporal: UInt8, up: Bool) -> PacketLayers {
            let payload: [UInt8] = [0xE8, 0x05, temporal << 5 | (up ? 0x10 : 0), 0x07, 0x11]
            return PacketLayers(vp9: payload.span)
        }
        #expect(picture(temporal: 0, up: true).temporalLimit(after: 0, wanted: 2, codec: .vp9) == 2)
        #expect(picture(temporal: 0, up: false).temporalLimit(after: 0, wanted: 2, codec: .vp9) == 0)
        #expect(picture(temporal: 1, up: true).temporalLimit(after: 0, wanted: 2, codec: .vp9) == 0)
    }

    @Test("a VP8 key frame says its size; other packets and cut ones do not")
    func sizes() {
        let key: [UInt8] = [0x90, 0x80, 0x05, 0x10, 0, 0, 0x9D, 0x01, 0x2A, 0x80, 0x02, 0xE0, 0x01]
        func height(_ payload: [UInt8]) -> Int? { KeyFrameSize.vp8(payload.span)?.height }
        #expect(height(key) == 480)
        for count in 0..<key.count { #expect(height(Array(key[..<count])) == nil) }
        var delta = key
        delta[3] = 0x11
        #expect(height(delta) == nil)
    }
}
