import RTPCore
import RelayTesting
import Testing

@Suite("Datagram kind")
struct DatagramKindTests {
    static let file = VectorFile("demux")

    static func kind(_ bytes: [UInt8]) -> DatagramKind {
        DatagramKind.classify(
            firstByte: bytes.first ?? 0, secondByte: bytes.count > 1 ? bytes[1] : 0, count: bytes.count)
    }

    @Test("every example datagram is of the kind the vectors name", arguments: file.rows("examples"))
    func examples(_ row: VectorRow) {
        #expect("\(Self.kind(row.bytes))" == row["class"].string)
    }

    @Test("each of the 256 first bytes falls into its RFC 7983 range", arguments: file.rows())
    func firstByte(_ row: VectorRow) throws {
        let from = try #require(row["from"].integer)
        let to = try #require(row["to"].integer)
        for byte in from...to {
            let kind = DatagramKind.classify(firstByte: UInt8(byte), secondByte: 0, count: 100)
            #expect("\(kind)" == row["class"].string, "first byte \(byte)")
        }
    }

    @Test("each of the 256 second bytes tells RTP from RTCP by RFC 5761", arguments: file.rows("second_byte"))
    func secondByte(_ row: VectorRow) throws {
        let from = try #require(row["from"].integer)
        let to = try #require(row["to"].integer)
        for byte in from...to {
            for first: UInt8 in [0x80, 0x90, 0xBF] {
                let kind = DatagramKind.classify(firstByte: first, secondByte: UInt8(byte), count: 12)
                #expect("\(kind)" == row["class"].string, "second byte \(byte)")
            }
        }
    }

    @Test(
        "case R08: borders of the ranges hold at every length that has the bytes to tell",
        arguments: [
            (0, "stun"), (1, "stun"), (2, "stun"), (3, "stun"), (4, "drop"), (15, "drop"), (16, "drop"),
            (19, "drop"),
            (20, "dtls"), (63, "dtls"), (64, "drop"), (79, "drop"), (80, "drop"), (127, "drop"), (128, "rtp"),
            (191, "rtp"), (192, "drop"), (255, "drop"),
        ] as [(UInt8, String)])
    func borders(_ first: UInt8, _ expected: String) {
        for count in [2, 11, 12, 1500, 65_507] {
            #expect("\(DatagramKind.classify(firstByte: first, secondByte: 0, count: count))" == expected)
        }
    }

    @Test("case R08: an empty datagram is dropped whatever lies in the buffer")
    func emptyDatagram() {
        for first in UInt8.min...UInt8.max {
            #expect(DatagramKind.classify(firstByte: first, secondByte: 200, count: 0) == .drop)
        }
    }

    @Test("case R08: one byte of media is dropped, since nothing tells RTP from RTCP")
    func oneByteOfMedia() {
        for first: UInt8 in 128...191 {
            #expect(DatagramKind.classify(firstByte: first, secondByte: 111, count: 1) == .drop)
        }
    }

    @Test("case R08: payload type 72 with the marker looks like a sender report")
    func payloadType72WithMarker() {
        let bytes = hexBytes("80c80028000003c01111111100000000000000000000000000000000") ?? []
        #expect(Self.kind(bytes) == .rtcp)
    }
}
