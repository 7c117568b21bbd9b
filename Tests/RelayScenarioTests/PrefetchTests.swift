import RTPCore
import RelayCore
import RelayTesting
import Testing

/// What the media loop says before a batch is only a hint.
@Suite("Fetching ahead") struct PrefetchTests {
    /// 33 calls for a second, with and without the hint before every step; what each participant heard and saw.
    private func play(telling: Bool) throws -> (heard: [[UInt64]], pictures: [Int], datagrams: Int) {
        let scene = try CallScene()
        let identity = DTLSClientIdentity()
        var people: [CallScene.Participant] = []
        for number in 0..<33 {
            let (a, b) = try scene.makePair {
                $0.identity = identity
                // Records that lack what others have: no video, no feedback of the transport's, RED.
                $0.offersRED = number % 3 == 1
                $0.dialect = number % 2 == 0 ? .chromium : .aiortc
            }
            people += [a, b]
        }
        // One who has not joined and sends, one who is gone.
        people.append(try scene.prepare(scene.makeClient { $0.identity = identity }, in: scene.makeRoom()))
        scene.remove(people[0])
        #expect(scene.engine.transportCount == 66)
        let strangers = (0..<3).map { PeerAddress(ipv4: 0x0A02_0000 + $0, port: 9) }
        // A burst of one sender, strangers, and more than are fetched at once.
        let peers = [people[1].client.address, people[1].client.address] + strangers + people.map(\.client.address)
        #expect(peers.count > MediaEngine.expectedCount)
        if telling {
            scene.invariant = { scene in
                peers.withUnsafeBufferPointer { peers in
                    guard let first = peers.baseAddress else { return }
                    for count in [0, 1, 2, 40, peers.count] { scene.engine.expect(first, count: count) }
                }
            }
        }
        scene.run(for: .seconds(1))
        scene.invariant = nil
        var heard: [[UInt64]] = []
        var pictures: [Int] = []
        // Of those whose other side is still there.
        for number in 2..<66 {
            let receiver = people[number].client
            let sender = people[number ^ 1].client
            heard.append(receiver.heard(.audio, from: sender))
            pictures.append(receiver.stream(.video)?.decodablePictures.count ?? 0)
        }
        return (heard, pictures, scene.datagramsIn)
    }

    @Test("with more than 64 participants the hint changes nothing that anybody hears or sees")
    func changesNothing() throws {
        let told = try play(telling: true)
        let silent = try play(telling: false)
        #expect(told.heard == silent.heard)
        #expect(told.pictures == silent.pictures)
        #expect(told.heard.allSatisfy { $0.count >= 45 })
        #expect(told.datagrams == silent.datagrams)
    }
}
