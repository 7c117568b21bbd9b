import RTPCore
import RelayCore
import RelayTesting
import Testing

@Suite("DTLS handshake") struct HandshakeTests {
    @Test("comes up in two round trips and both sides hold the same keys")
    func comesUp() throws {
        let scene = try HandshakeScene()
        let begin = scene.now
        scene.connect()
        #expect(scene.isUp)
        #expect(scene.keysAgree)
        #expect(scene.now - begin == .milliseconds(40))
    }
}
