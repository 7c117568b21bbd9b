import RTPCore
import Testing

/// A room in virtual time: each member's level by a function of time, a packet each 20 ms, a choice each 100 ms.
private struct Conversation {
    var activities: [SpeechActivity]
    var selection: SpeakerSelection
    var now = Instant(nanoseconds: 0)
    var speakers: [(at: Interval, id: Int32)] = []
    var slotChanges = 0

    init(members: Int, slots: Int) {
        activities = Array(repeating: SpeechActivity(), count: members)
        selection = SpeakerSelection(slotCount: slots)
    }

    /// `level` gives nil where a member sends nothing.
    mutating func run(for time: Interval, present: Set<Int>? = nil, level: (Int, Interval) -> UInt8?) {
        let end = now + time
        let start = now
        while now < end {
            for k in activities.indices {
                guard let level = level(k, now - start) else { continue }
                activities[k].received(level: level, isVoice: true, at: now)
            }
            if now.nanoseconds % 100_000_000 == 0 { choose(present) }
            now += .milliseconds(20)
        }
    }

    private mutating func choose(_ present: Set<Int>?) {
        let candidates = activities.indices.filter { present?.contains($0) ?? true }.map {
            SpeakerSelection.Candidate(
                id: Int32($0), score: activities[$0].score(at: now), isSpeaking: activities[$0].loudness(at: now) > 5)
        }
        let slots = selection.slots
        let speaker = selection.speaker
        _ = selection.choose(from: candidates.span, now: now)
        if selection.slots != slots { slotChanges += 1 }
        if selection.speaker != speaker { speakers.append((now - Instant(nanoseconds: 0), selection.speaker)) }
    }
}

@Suite struct SpeakerSelectionTests {
    @Test("who speaks alone is the speaker within 300 ms")
    func alone() {
        var room = Conversation(members: 8, slots: 3)
        room.run(for: .seconds(1)) { k, _ in k == 5 ? 30 : 100 }
        #expect(room.selection.speaker == 5)
        #expect(room.speakers.first.map { $0.at <= .milliseconds(300) } == true)
        #expect(room.selection.slots.contains(5))
    }

    @Test("a cough or a click of 100 ms takes the floor from nobody")
    func cough() {
        var room = Conversation(members: 4, slots: 3)
        room.run(for: .seconds(3)) { k, _ in k == 1 ? 35 : 100 }
        room.run(for: .seconds(2)) { k, time in
            if k == 2, time < .milliseconds(100) { return 5 }
            return k == 1 ? 35 : 100
        }
        #expect(room.speakers.map(\.id) == [1])
    }

    @Test("two who speak at once do not swap the floor each syllable")
    func doubleTalk() {
        var room = Conversation(members: 4, slots: 3)
        room.run(for: .seconds(20)) { k, time in
            guard k < 2 else { return 100 }
            let syllable = time.milliseconds / 250 % 2 == Int64(k)
            return syllable ? 30 : 45
        }
        #expect(room.speakers.count <= 3, "the speaker changed \(room.speakers.count) times in 20 s")
    }

    @Test("a handover is followed within 1.5 s")
    func handover() {
        var room = Conversation(members: 4, slots: 3)
        room.run(for: .seconds(5)) { k, _ in k == 0 ? 35 : 100 }
        let silentFrom = room.now - Instant(nanoseconds: 0)
        room.run(for: .seconds(3)) { k, _ in k == 3 ? 35 : 100 }
        #expect(room.selection.speaker == 3)
        #expect(room.speakers.last!.at - silentFrom <= .milliseconds(1_500))
    }

    @Test("a slot is kept through a pause of a second while others are silent or quieter")
    func pause() {
        var room = Conversation(members: 6, slots: 2)
        room.run(for: .seconds(4)) { k, _ in k < 2 ? 35 : 100 }
        let changes = room.slotChanges
        room.run(for: .seconds(1)) { _, _ in 100 }
        room.run(for: .seconds(2)) { k, _ in k < 2 ? 35 : 100 }
        #expect(room.slotChanges == changes)
    }

    @Test("a third speaker gets the slot of one who has been silent for 2 s")
    func slotMoves() {
        var room = Conversation(members: 6, slots: 2)
        room.run(for: .seconds(4)) { k, _ in k < 2 ? 35 : 100 }
        room.run(for: .seconds(4)) { k, _ in k == 0 || k == 4 ? 35 : 100 }
        #expect(Set(room.selection.slots) == [0, 4])
    }

    @Test("who sends nothing in silence (DTX) is heard from the first word")
    func dtx() {
        var room = Conversation(members: 3, slots: 2)
        room.run(for: .seconds(2)) { k, _ in k == 0 ? 40 : nil }
        room.run(for: .milliseconds(400)) { k, _ in k == 2 ? 35 : nil }
        #expect(room.selection.slots.contains(2))
    }

    @Test("one who leaves frees the slot and the floor")
    func leaves() {
        var room = Conversation(members: 3, slots: 2)
        room.run(for: .seconds(2)) { k, _ in k == 0 ? 35 : 100 }
        room.run(for: .milliseconds(200), present: [1, 2]) { _, _ in 100 }
        #expect(!room.selection.slots.contains(0))
        #expect(room.selection.speaker == -1)
    }
}
