import RTPCore
import RelayCore
import Testing

/// Control of a new build and workers of an earlier one.
@Suite struct LinkVersionTests {
    private let hello = WorkerHello(
        worker: WorkerID(index: 1, epoch: 2), processID: 3, endpoint: conductorEndpoint,
        transports: [
            TransportSnapshot(
                participant: ParticipantHandle(4), room: RoomHandle(5), phase: .joined, isInterrupted: false,
                since: Instant(nanoseconds: 6))
        ], news: [.joined(ParticipantHandle(4), at: Instant(nanoseconds: 6))], recordings: [RecordingHandle(7)],
        build: "1.2.3+abc")

    private func framed(_ bytes: [UInt8]) -> (framer: LinkFramer, message: LinkMessage?, refusal: LinkRefusal?) {
        var framer = LinkFramer()
        bytes.withUnsafeBytes { framer.append($0) }
        do throws(LinkRefusal) {
            let message = try framer.next()
            return (framer, message, nil)
        } catch {
            return (framer, nil, error)
        }
    }

    @Test(
        "a hello of an earlier version is understood whole, but for what came later: recordings, the build",
        arguments: [7, 8, 9] as [UInt8])
    func earlier(version: UInt8) {
        let (framer, message, _) = framed(LinkMessage.hello(hello).encoded(version: version))
        var expected = hello
        expected.build = ""
        if version < 9 { expected.recordings = [] }
        #expect(message == .hello(expected))
        #expect(framer.version == version)
    }

    @Test("statistics of an earlier version are understood, but for what the relay itself lost")
    func earlierStatistics() {
        var statistics = TransportStatistics()
        statistics.packetsSent = 1
        statistics.roundTripSumMicroseconds = 2
        statistics.largestRemoteJitterMicroseconds = 3
        var expected = statistics
        statistics.packetsDiscarded = 4
        statistics.workerOverflows = 5
        func news(_ statistics: TransportStatistics) -> LinkMessage {
            .news(.statistics(ParticipantHandle(4), statistics, at: Instant(nanoseconds: 6)))
        }
        #expect(framed(news(statistics).encoded(version: 8)).message == news(expected))
        expected = statistics
        #expect(framed(news(statistics).encoded()).message == news(expected))
    }

    @Test("a hello of this version names the build")
    func current() {
        let (framer, message, _) = framed(LinkMessage.hello(hello).encoded())
        #expect(message == .hello(hello))
        #expect(framer.version == LinkFormat.version)
    }

    @Test("every command is told in every version that control speaks", arguments: Array(LinkFormat.versions))
    func commands(version: UInt8) {
        for command in [WorkerCommand.adopted, .shutDown, .join(ParticipantHandle(4)), .remove(ParticipantHandle(4))] {
            let (framer, message, _) = framed(LinkMessage.command(command).encoded(version: version))
            #expect(message == .command(command) && framer.version == version)
        }
    }

    @Test("other versions are refused by their number", arguments: [0, 6, LinkFormat.version + 1, 255])
    func unknown(version: UInt8) {
        var bytes = LinkMessage.hello(hello).encoded()
        bytes[4] = version
        #expect(framed(bytes).refusal == .unknownVersion(version))
    }
}
