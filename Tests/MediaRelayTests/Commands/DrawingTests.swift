import Foundation
import Testing

@testable import RelayClient
@testable import RelayCommands

@Suite("What commands draw") struct DrawingTests {
    private let plain = Terminal()
    private func json(_ text: String) throws -> RelayClient.JSON {
        try JSONDecoder().decode(RelayClient.JSON.self, from: Data(text.utf8))
    }

    private func call(loss: String = "0", jitter: String = "4.5") throws -> RelayClient.JSON {
        func leg(_ uid: String, _ created: String, _ joined: String, _ loss: String) -> String {
            """
            {"participantId": "p_\(uid)", "uid": "\(uid)", "device": "web", "createdAt": "2026-12-01T10:00:0\(created)Z",
             "preparedAt": "2026-12-01T10:00:02.000Z", "joinedAt": "2026-12-01T10:00:0\(joined)Z",
             "firstAudioAt": "2026-12-01T10:00:04.100Z", "leftAt": "2026-12-01T10:00:20.000Z", "reason": "hangup",
             "interruptions": 1, "interruptedMs": 1500, "pathChanges": 2, "complete": true,
             "uplink": {"packets": 12345, "bytes": 1234567, "lost": 12, "lossPercent": \(loss), "jitterMs": 1.25,
               "largestJitterMs": \(jitter), "largestAudioGapMs": 1200, "largestVideoGapMs": 0},
             "downlink": {"packets": 900, "bytes": 900, "lost": 0, "lossPercent": 0, "jitterMs": 0, "largestJitterMs": 0},
             "roundTripMs": {"last": 20.0, "smallest": 10.2, "largest": 80.7, "mean": 21}}
            """
        }
        return try json(
            """
            {"schema": 1, "roomId": "c-1", "kind": "peer", "media": "video", "outcome": "ended", "reason": "hangup",
             "endedBy": {"kind": "participant", "uid": "bob", "device": "web"},
             "createdAt": "2026-12-01T10:00:00.000Z", "startedAt": "2026-12-01T10:00:04.000Z",
             "talkingSince": "2026-12-01T10:00:04.000Z", "endedAt": "2026-12-01T10:00:20.000Z", "durationMs": 16000,
             "complete": true, "ring": {"caller": "alice", "windowMs": 45000, "callees": [{"uid": "bob", "reached": true,
               "ringingAt": "2026-12-01T10:00:01.000Z", "answeredAt": "2026-12-01T10:00:04.000Z", "device": "web",
               "pushes": [{"device": "web", "at": "2026-12-01T10:00:00.500Z"}]}]},
             "participants": [\(leg("alice", "0.250", "4.000", "0")), \(leg("bob", "1.500", "4.000", loss))]}
            """)
    }

    @Test("a call is drawn with its times in order, a bar for each leg, and both ways of both legs") func wholeCall()
        throws
    {
        let text = CallDrawing.one(try call(), on: plain)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines[0] == "c-1  peer, video  ended (hangup)" && lines[1] == "call      alice → bob")
        #expect(text.contains("begun     2026-12-01 10:00:00 UTC") && text.contains("ended by  bob (web)"))
        let told = [
            "+0.000 s  alice calls", "+0.250 s  alice (web) prepares", "+0.500 s  push for bob (web)",
            "+1.000 s  bob rings", "+4.000 s  bob answers (web)", "+20.000 s  the end: ended",
        ].compactMap { text.range(of: $0)?.lowerBound }
        #expect(told.count == 6 && told == told.sorted())
        for row in [
            "to the relay: packets          12,345, 1.2 MB  12,345, 1.2 MB", "round trip, mean (least…most)",
            "21 (10…81) ms",
            "longest time without sound         1,200 ms", "1.3, 4.5 ms", "1, 1.5 s",
        ] { #expect(text.contains(row), "\(row) in\n\(text)") }
        #expect(!text.contains("without picture"))
    }

    @Test("a leg's bar has as much of each state as the call had") func timeline() throws {
        let call = try call()
        var terminal = plain
        terminal.width = 60
        let text = CallTimeline(call, CallMoments(call)).text(on: terminal)
        let lines = text.split(separator: "\n").map(String.init)
        // 60 less 11 of the longest name, 2 before and 2 behind it: 45 for 20 s.
        #expect(lines[0].hasSuffix("20.0 s") && lines[0].contains("  0 s"))
        let alice = try #require(lines.first { $0.contains("alice (web)") })
        #expect(alice.count { $0 == "━" } == 36 && alice.count { $0 == "─" } == 5 && alice.count { $0 == "·" } == 4)
        let rings = try #require(lines.first { $0.contains("bob rings") })
        #expect(rings.count { $0 == "░" } == 7)
        terminal.hasUnicode = false
        let ascii = CallTimeline(call, CallMoments(call)).text(on: terminal)
        #expect(ascii.allSatisfy { $0.isASCII })
    }

    @Test("what was bad is named, the worst first; a good call says so") func verdict() throws {
        let good = CallDrawing.one(try call(), on: plain)
        #expect(good.contains("Where it was bad") && good.contains("alice (web) was away for 1.5 s"))
        let legs = try #require(try call(loss: "7.25", jitter: "60")["participants"]?.array)
        #expect(
            CallLegs.findings(legs) == [
                "alice (web) was away for 1.5 s", "bob (web) was away for 1.5 s",
                "bob (web) to the relay: 7.25 % lost", "alice (web) to the relay: jitter of up to 60 ms",
                "bob (web) to the relay: jitter of up to 60 ms",
            ])
        #expect(CallLegs.findings([]).isEmpty)
    }

    @Test("more than three legs are a row each") func group() throws {
        let leg = try #require(try call()["participants"]?.array?.first)
        let text = CallLegs.text([leg, leg, leg, leg], on: plain)
        #expect(text.split(separator: "\n").count { $0.hasPrefix("alice (web)  hangup") } == 4)
    }

    @Test("a record of a call that never began, and one without a ring, are drawn as well") func poor() throws {
        let never = try json(
            """
            {"schema": 1, "roomId": "c", "kind": "group", "media": "audio", "outcome": "unanswered", "participants": [],
             "createdAt": "2026-12-01T10:00:00.000Z", "endedAt": "2026-12-01T10:00:00.000Z", "durationMs": 0, "complete": false,
             "missing": [{"uid": "bob", "reason": "ice"}], "omittedParticipants": 2}
            """)
        let text = CallDrawing.one(never, on: plain)
        #expect(text.contains("Nobody was in.") && text.contains("bob: ice"))
        #expect(CallDrawing.list([never], on: plain).contains("unanswered"))
        #expect(
            CallDrawing.one(.object([:]), on: plain).contains("?") && CallDrawing.list([], on: plain) == "no calls\n")
    }

    @Test("calls and rooms are tables, with a view where one was asked for") func lists() throws {
        let list = CallDrawing.list([try call()], on: plain).split(separator: "\n")
        #expect(list[0] == "ENDED (UTC)          ID   MEDIA       CALL         OUTCOME  TALKED  ENDED BY")
        #expect(list[1] == "2026-12-01 10:00:20  c-1  peer video  alice → bob  ended    16.0 s  bob (web)")
        let room = try json(
            """
            {"id": "r", "kind": "peer", "media": "audio", "status": "ongoing", "createdAt": "2026-12-01T10:00:00.000Z",
             "ring": {"caller": "alice", "callees": [{"uid": "bob", "state": "answered", "device": "web"}]},
             "participants": [{"id": "p_1", "uid": "alice", "device": "web", "state": "joined", "interrupted": true, "audio": "on",
              "video": "muted", "held": true, "joinedAt": "2026-12-01T10:00:30.000Z", "quality": "poor", "leg": "uplink",
              "statistics": {"packetsReceived": 90, "packetsLost": 10, "roundTripMs": 12.4, "remoteLossPercent": 1.25}}]}
            """)
        let now = Int64(1_796_119_290_000)
        let rooms = RoomDrawing.list([room], nowMs: now, on: plain)
        #expect(rooms.split(separator: "\n")[1] == "r     peer  audio  ongoing  1 min 30 s  alice → bob")
        let one = RoomDrawing.one(room, nowMs: now, on: plain)
        #expect(one.contains("bob: answered (web)"))
        #expect(
            one.contains(
                "alice  web     joined, interrupted  1 min 0 s  on, held  muted, held  poor uplink   10.0 %      1.3 %  12 ms"
            ))
        #expect(RoomDrawing.list([], nowMs: now, on: plain) == "no rooms\n")
    }

    @Test("an event is one line") func event() throws {
        let text = """
            {"seq": 412, "roomSeq": 7, "id": "evt_412", "type": "call.ended", "time": "2026-11-30T18:04:11.218Z",
             "roomId": "c-81", "reason": "rejected", "data": {"outcome": "rejected", "durationMs": 0}}
            """
        let event = try RelayClient.Event(json: Array(text.utf8))
        #expect(
            EventCommand.text(of: event, on: plain)
                == "412      18:04:11.218  c-81              call.ended               rejected  durationMs=0  outcome=rejected"
        )
    }

    @Test("colour is for terminals only, and nothing that a peer chose steers one") func terminal() {
        var coloured = plain
        coloured.isColoured = true
        #expect(coloured.paint("x", .red) == "\u{1B}[31mx\u{1B}[0m" && plain.paint("x", .red) == "x")
        #expect(Terminal.printable("a\u{1B}[31m\n\u{202E}b") == "a?[31m??b")
        #expect(TextTable.Cell("\u{7}").text == "?")
        // Tests do not run at a terminal.
        #expect(!Terminal.standard(["TERM": "xterm"]).isColoured)
    }

    @Test("amounts are written for humans") func quantities() {
        #expect(Quantity.duration(ofMs: 400) == "0.4 s" && Quantity.duration(ofMs: 91_000) == "1 min 31 s")
        #expect(Quantity.duration(ofMs: 7_500_000) == "2 h 5 min" && Quantity.age(ofMs: 5_900) == "5 s")
        #expect(Quantity.bytes(999) == "999 B" && Quantity.bytes(1_234_567) == "1.2 MB")
        #expect(Quantity.bytes(2_500_000_000) == "2.50 GB")
        #expect(
            Quantity.count(0) == "0" && Quantity.count(1_234_567) == "1,234,567" && Quantity.count(-1_000) == "-1,000")
        #expect(Quantity.decimal(0.05, digits: 1) == "0.1" && Quantity.decimal(-2.5, digits: 0) == "-3")
        #expect(Quantity.decimal(.infinity, digits: 1) == "?" && Quantity.decimal(1.005, digits: 3) == "1.005")
        #expect(Quantity.time("soon") == "soon" && NodeCommands.escaped("a/ü%") == "a%2F%C3%BC%25")
    }

    private func measuredCall() throws -> RelayClient.JSON {
        func series(_ up: String, _ down: String) -> String {
            """
            {"from": "2026-12-01T10:00:00.000Z", "spanMs": [10000, 10000, 10000, 5000],
             "uplink": {"packets": [500, 500, 500, 250], "lost": [0, 60, 55, 0], "lossPercent": \(up), "jitterMs": [1, 2, 3, 4], "kbps": [40, 80, 40, 0]},
             "downlink": {"packets": [500, 500, 500, 250], "lost": [0, 0, 0, 20], "lossPercent": \(down), "jitterMs": [1, 1, 90, 1], "kbps": [40, 40, 40, 40]},
             "roundTripMs": [20, 20, 20, 20], "overflowed": [0, 0, 0, 7]}
            """
        }
        func leg(_ uid: String, _ series: String) -> String {
            #"{"uid": "\#(uid)", "device": "web", "createdAt": "2026-12-01T10:00:00.000Z", "series": \#(series)}"#
        }
        return try json(
            """
            {"roomId": "c-1", "createdAt": "2026-12-01T10:00:00.000Z", "endedAt": "2026-12-01T10:00:35.000Z",
             "participants": [\(leg("alice", series("[0, 10.5, 9.9, 0]", "[0, 0, 0, 0]"))), \(leg("bob", series("[0, 0, 0, 0]", "[0, 0, 0, 7.4]")))]}
            """)
    }

    @Test("a call says which leg lost what and when") func whichLegAndWhen() throws {
        let call = try measuredCall()
        let findings = CallSeries(call, CallMoments(call)).findings()
        #expect(
            findings.contains(
                .init(fromMs: 10_000, toMs: 30_000, words: "alice (web)'s uplink lost 115 packets, up to 10.5 %")))
        #expect(
            findings.contains(
                .init(fromMs: 30_000, toMs: 35_000, words: "bob (web)'s downlink lost 20 packets, up to 7.4 %")))
        #expect(findings.filter { $0.words.contains("jitter of up to 90 ms") }.map(\.fromMs) == [20_000, 20_000])
        #expect(
            findings.contains {
                $0.words.hasPrefix("the relay's own socket was full: 7 datagrams") && $0.fromMs == 30_000
            })
        #expect(findings.map(\.fromMs) == findings.map(\.fromMs).sorted())
        let text = CallSeries(call, CallMoments(call)).when(on: plain)
        #expect(text.contains("  10.0 s – 30.0 s           alice (web)'s uplink lost 115 packets"), "\(text)")
    }

    @Test("each figure is a line of bars over the whole call, as wide as the terminal allows") func barsOverTime()
        throws
    {
        let call = try measuredCall()
        var terminal = plain
        terminal.width = 81
        let lines = CallSeries(call, CallMoments(call)).text(on: terminal).split(separator: "\n").map(String.init)
        // 81 less 26 of the names, 16 behind and 4: 35, one for each second.
        #expect(lines[0].hasSuffix("35.0 s") && lines[1] == "  alice (web)")
        let loss = try #require(lines.first { $0.contains("to the relay: lost") })
        #expect(
            loss.contains(String(repeating: "·", count: 10) + String(repeating: "█", count: 20) + "·····  10.5 %"),
            "\(loss)")
        terminal.hasUnicode = false
        let ascii = CallSeries(call, CallMoments(call)).text(on: terminal)
        #expect(ascii.utf8.allSatisfy { $0 < 0x80 } && ascii.contains(String(repeating: "#", count: 10)))
        #expect(CallSeries(try json("{}"), CallMoments(try json("{}"))).text(on: plain).isEmpty)
    }
}
