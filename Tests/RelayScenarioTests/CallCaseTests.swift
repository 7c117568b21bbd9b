import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Cases from the field that need real packets, and what of a client's packets keeps a room from being idle.
@Suite("Calls: cases")
struct CallCaseTests {
    @Test(
        "X10 neither what is sent to a dead side nor garbage in its name keeps it alive: it is lost after 30 s",
        arguments: [false, true])
    func x10DeadSide(_ hasGarbage: Bool) throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair()
        scene.run(for: .seconds(1))
        let address = b.client.address
        b.client.vanish()
        let garbage: [[UInt8]] = [
            [0x80, 111] + [UInt8](repeating: 9, count: 60), [0x81, 201, 0, 7] + [UInt8](repeating: 0, count: 40),
            [23, 254, 253] + [UInt8](repeating: 1, count: 50), [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42, 1, 2, 3, 4],
        ]
        for _ in 0..<290 {
            if hasGarbage { for bytes in garbage { scene.inject(bytes, from: address) } }
            scene.run(for: .milliseconds(100))
        }
        #expect(scene.end(of: b) == nil)
        for _ in 0..<20 {
            if hasGarbage { for bytes in garbage { scene.inject(bytes, from: address) } }
            scene.run(for: .milliseconds(100))
        }
        #expect(scene.end(of: b) == .lost)
        #expect(scene.end(of: a) == nil)
    }

    @Test("a joined client with null tracks is reported on with no packets: its checks and reports are no media")
    func onlyReports() throws {
        let scene = try CallScene()
        let (a, b) = try scene.makePair { $0.sendsAtOnce = false }
        scene.run(for: .seconds(20))
        for side in [a, b] {
            let counts: [UInt64] = scene.news(of: side).compactMap {
                if case .statistics(_, let statistics, _) = $0 { statistics.packetsReceived } else { nil }
            }
            #expect(counts.count >= 9)
            #expect(counts.allSatisfy { $0 == 0 })
        }
    }
}
