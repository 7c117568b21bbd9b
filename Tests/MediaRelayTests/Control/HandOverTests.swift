import MediaRelay
import RelayHTTP
import Testing

@Suite struct HandOverTests {
    @Test("what one program writes the next one reads: sockets, way back, arguments, key, failure")
    func roundTrip() throws {
        let http = HTTPHandover(
            listeners: [
                .init(address: "::1", port: 0, descriptor: 5), .init(address: "0.0.0.0", port: 8_080, descriptor: 6),
            ],
            connections: [.init(descriptor: 9, listener: 1), .init(descriptor: 10, listener: 0)])
        var handOver = HandOver(http: http, image: 7, randomSecret: Array("abc".utf8))
        handOver.arguments = ["media-relay", "serve", "--key", "a:ä \n b", ""]
        handOver.failure = "first\nsecond"
        let read = try #require(HandOver(text: handOver.text))
        #expect(read.http == http && read.image == 7 && read.randomSecret == Array("abc".utf8))
        #expect(read.arguments == handOver.arguments && read.failure == "first; second")
    }

    @Test("lines of a later version are passed over; what is no hand-over is none")
    func others() throws {
        let read = try #require(HandOver(text: "media-relay handover 1\nlistener 5 80 127.0.0.1\nnovelty 1 2 3\n"))
        #expect(read.http.listeners.count == 1 && read.image == nil && read.failure == nil)
        for text in ["", "media-relay handover 2\n", "media-relay handover 1\nconnection 5 0\n"] {
            #expect(HandOver(text: text) == nil)
        }
    }
}
