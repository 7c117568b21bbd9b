import RTPCore
import RelayCore
import RelayTesting
import Testing

/// Receiver reference times (RFC 3611): answered where the offer asks for it.
@Suite("Extended reports") struct ExtendedReportTests {
    /// Who offers reference times and sends nothing, and the other one of the room.
    private func makeCall(_ scene: CallScene, offers: Bool) throws -> (
        a: CallScene.Participant, b: CallScene.Participant
    ) {
        let room = scene.makeRoom()
        let a = try scene.prepare(
            scene.makeClient {
                $0.offersReferenceTimes = offers
                $0.sendsAtOnce = false
            }, in: room, joins: true)
        let b = try scene.prepare(scene.makeClient(), in: room, joins: true)
        scene.run(for: .seconds(2))
        return (a, b)
    }

    @Test("a receive-only client's reference time is answered once, with the time that it lay here")
    func answered() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene, offers: true)
        let time = NTPTime(rawValue: 0xE8F4_C1EE_9F3F_1A2B)
        let sent = scene.now
        scene.act(a.client) {
            $0.sendRTCP([.receiverReport(ssrc: 9, blocks: []), .referenceTime(ssrc: 9, ntp: time.rawValue)])
        }
        #expect(scene.run(until: { !a.client.referenceDelays.isEmpty }, atMost: .seconds(2)))
        let answer = try #require(a.client.referenceDelays.first)
        #expect(answer.ssrc == 9 && answer.lastReference == time.compact)
        // Ten milliseconds each way.
        let roundTrip = (scene.now - sent) - Interval(compactUnits: answer.delay)
        #expect((19_900...20_100).contains(roundTrip.microseconds), "\(roundTrip.microseconds) µs")
        scene.run(for: .seconds(3))
        #expect(a.client.referenceDelays.count == 1)
        #expect(b.client.referenceDelays.isEmpty)
        #expect(scene.engine.counters[.xrSkipped] == 1, "the block that nobody knows")
    }

    @Test("more SSRCs than a client has kinds do not grow anything: the newest four are answered")
    func bounded() throws {
        let scene = try CallScene()
        let (a, _) = try makeCall(scene, offers: true)
        // Just behind a report, so that all of them wait for the same one.
        let reports = a.client.counters.receiverReports
        #expect(scene.run(until: { a.client.counters.receiverReports > reports }, atMost: .seconds(2)))
        for ssrc in 1...20 as ClosedRange<UInt32> {
            scene.act(a.client) {
                $0.sendRTCP([
                    .receiverReport(ssrc: 9, blocks: []), .referenceTime(ssrc: ssrc, ntp: UInt64(ssrc) << 32),
                ])
            }
            scene.run(for: .milliseconds(1))
        }
        scene.run(for: .seconds(2))
        #expect(Set(a.client.referenceDelays.map(\.ssrc)) == [17, 18, 19, 20])
    }

    @Test("who did not ask for it gets no answer")
    func notNegotiated() throws {
        let scene = try CallScene()
        let (a, _) = try makeCall(scene, offers: false)
        scene.act(a.client) { $0.sendRTCP([.referenceTime(ssrc: 9, ntp: 1 << 40)]) }
        scene.run(for: .seconds(2))
        #expect(a.client.referenceDelays.isEmpty)
        #expect(scene.engine.counters[.xrSkipped] == 1)
    }

    @Test("a client that has never sent anything gets sender reports of what it receives")
    func receiveOnly() throws {
        let scene = try CallScene()
        let (a, b) = try makeCall(scene, offers: false)
        scene.run(for: .seconds(3))
        #expect(a.client.senderReports.count == 2)
        #expect(b.client.senderReports.isEmpty)
    }
}
