import RTPCore
import RelayCore
import RelayTesting
import Testing

/// What is recorded of a call, from the clients' packets to the bytes of files.
@Suite("Recording a room") struct RecordingTests {
    /// A call that is recorded, and what its recorder makes of it.
    private final class Taping {
        let scene: CallScene
        let room: RoomHandle
        let order: RecordingOrder
        private(set) var recorder: RoomRecorder
        private(set) var files: [String: [UInt8]] = [:]
        private var names: [String] = []
        private(set) var wishes = 0

        init(quality: VirtualNetwork.Quality = .perfect, audio: Bool = true, video: Bool = true) throws {
            scene = try CallScene(seed: 7, quality: quality)
            room = scene.makeRoom()
            order = RecordingOrder(
                recording: RecordingHandle(5), room: room, id: "rec_5", roomName: "r", folder: "r_rec_5", audio: audio,
                video: video, byteLimit: 1 << 30, duration: .seconds(3_600))
            recorder = RoomRecorder(order, now: scene.now, startedNTP: NTPTime(scene.now))
        }

        func join(_ name: String, _ change: (inout SimulatedClient.Options) -> Void = { _ in }) throws
            -> CallScene.Participant
        {
            let participant = try scene.prepare(scene.makeClient(change), in: room, joins: true)
            recorder.name(
                RecordedParticipant(handle: participant.handle, id: "p_" + name, uid: name, device: "phone"))
            return participant
        }

        func start() {
            recorder = {
                var fresh = RoomRecorder(order, now: scene.now, startedNTP: NTPTime(scene.now))
                for person in recorder.people { fresh.name(person) }
                return fresh
            }()
            for (number, participant) in scene.participants.enumerated() {
                recorder.name(
                    RecordedParticipant(
                        handle: participant.handle, id: "p_\(number)", uid: "user\(number)", device: "phone"))
            }
            scene.command(.record(order))
        }

        func run(_ interval: Interval) {
            let end = scene.now + interval
            while scene.now < end {
                scene.run(for: .milliseconds(10))
                take()
            }
        }

        func stop() {
            scene.command(.stopRecording(order.recording))
            take()
            recorder.finish(.stopped, now: scene.now)
            keep()
        }

        private func take() {
            RecordedBatch.forEach(in: scene.engine.recorded.bytes) { recorder.receive($0, payload: $1) }
            scene.engine.recorded.removeAll()
            recorder.advance(to: scene.now)
            for wish in recorder.takeKeyFrameWishes() {
                wishes += 1
                scene.engine.requestKeyFrame(of: wish.participant, section: wish.section, now: scene.now)
            }
            keep()
        }

        private func keep() {
            for write in recorder.takeWrites() {
                switch write {
                case .open(_, let name):
                    names.append(name)
                    files[name] = []
                case .append(let number, let bytes): files[names[number]]? += bytes
                case .patch(let number, let offset, let bytes):
                    files[names[number]]?.replaceSubrange(offset..<offset + bytes.count, with: bytes)
                }
            }
        }

        func file(_ name: String) -> TrackFile? { recorder.files.first { $0.name == name } }
    }

    @Test("each participant's sound and picture get a file that has what was sent, from where it began")
    func whole() throws {
        let taping = try Taping()
        _ = try taping.join("alice")
        _ = try taping.join("ben")
        taping.run(.seconds(1))
        taping.start()
        taping.run(.seconds(5))
        taping.stop()
        let names = taping.files.keys.sorted()
        #expect(
            names == [
                "01-user0-audio.ogg", "01-user0-video.webm", "02-user1-audio.ogg", "02-user1-video.webm",
            ])
        for name in names {
            let file = try #require(taping.file(name))
            #expect(file.facts.byteCount == Int64(try #require(taping.files[name]).count))
            #expect((4_850...5_050).contains(file.facts.durationMs), "\(name): \(file.facts)")
            #expect(file.facts.packetsLost == 0 && file.facts.packetsUnused == 0, "\(name): \(file.facts)")
            #expect(file.isByReports && (-1...150).contains(file.offset.milliseconds), "\(name) at \(file.offset)")
        }
        let packets = try OggOpusFile.packets(try #require(taping.files["01-user0-audio.ogg"]))
        let numbers = packets.compactMap { MediaStamp(readFrom: $0)?.number }
        #expect(numbers.count == packets.count && packets.count >= 248)
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $1 == $0 + 1 }, "every packet, in order")
        let video = try #require(taping.file("01-user0-video.webm"))
        #expect(video.facts.size == PictureSize(width: 320, height: 240) && video.facts.keyFrames >= 1)
        #expect(video.facts.frames >= 120)
    }

    @Test("a lossy way costs what no repair brought, and nothing of time; pictures go on with a key frame")
    func loss() throws {
        var quality = VirtualNetwork.Quality.perfect
        quality.loss = 0.05
        let taping = try Taping(quality: quality)
        _ = try taping.join("alice")
        _ = try taping.join("ben")
        taping.run(.seconds(2))
        taping.start()
        taping.run(.seconds(20))
        taping.stop()
        let audio = try #require(taping.file("01-user0-audio.ogg"))
        #expect(audio.facts.packetsLost > 10 && audio.facts.gapMs >= Int64(audio.facts.packetsLost) * 20 - 60)
        #expect((19_800...20_100).contains(audio.facts.durationMs), "\(audio.facts)")
        let video = try #require(taping.file("01-user0-video.webm"))
        #expect((19_500...20_100).contains(video.facts.durationMs), "\(video.facts)")
        #expect(video.facts.frames > 400, "most pictures are repaired in time: \(video.facts)")
    }

    @Test("what a gate holds back is not recorded, and its time is silence")
    func muted() throws {
        let taping = try Taping()
        let alice = try taping.join("alice")
        _ = try taping.join("ben")
        taping.run(.seconds(1))
        taping.start()
        taping.run(.seconds(2))
        taping.scene.setGates(.ownAudio, of: alice)
        let before = alice.client.sentCount(.audio)
        taping.run(.seconds(3))
        let after = alice.client.sentCount(.audio)
        taping.scene.setGates([], of: alice)
        taping.run(.seconds(2))
        taping.stop()
        let audio = try #require(taping.file("01-user0-audio.ogg"))
        #expect((6_800...7_050).contains(audio.facts.durationMs) && (2_900...3_100).contains(audio.facts.gapMs))
        let packets = try OggOpusFile.packets(try #require(taping.files["01-user0-audio.ogg"]))
        let numbers = packets.compactMap { MediaStamp(readFrom: $0)?.number }
        #expect(!numbers.contains { ($0 > before + 1) && ($0 + 2 < after) }, "nothing of what was said meanwhile")
    }

    @Test("who has not joined is not recorded, who is alone is; sound alone is asked for alone")
    func alone() throws {
        let taping = try Taping(video: false)
        _ = try taping.join("alice")
        let waiting = try taping.scene.prepare(taping.scene.makeClient(), in: taping.room)
        taping.run(.seconds(1))
        taping.start()
        taping.scene.act(waiting.client) { $0.startMedia(now: taping.scene.now) }
        taping.run(.seconds(2))
        taping.stop()
        #expect(taping.files.keys.sorted() == ["01-user0-audio.ogg"])
    }

    @Test("no room is recorded: nothing is copied, and a room beside one that is, neither")
    func untouched() throws {
        let taping = try Taping()
        _ = try taping.join("alice")
        _ = try taping.join("ben")
        let other = taping.scene.makeRoom()
        for _ in 0..<2 { _ = try taping.scene.prepare(taping.scene.makeClient(), in: other, joins: true) }
        taping.run(.seconds(1))
        #expect(taping.scene.engine.recorded.isEmpty)
        taping.start()
        taping.run(.seconds(1))
        taping.stop()
        #expect(taping.recorder.people.count == 2)
        taping.scene.run(for: .seconds(1))
        #expect(taping.scene.engine.recorded.isEmpty, "it has ended")
    }

    @Test("bounds: bytes and time end a recording")
    func bounds() throws {
        let scene = try CallScene()
        func make(bytes: Int64, seconds: Int64) -> RoomRecorder {
            RoomRecorder(
                RecordingOrder(
                    recording: RecordingHandle(5), room: RoomHandle(1), id: "rec_5", roomName: "r", folder: "r_rec_5",
                    byteLimit: bytes, duration: .seconds(seconds)), now: scene.now, startedNTP: NTPTime(scene.now))
        }
        var long = make(bytes: 1 << 30, seconds: 60)
        long.advance(to: scene.now + .seconds(59))
        #expect(long.end == nil && long.deadline <= scene.now + .seconds(60))
        long.advance(to: scene.now + .seconds(60))
        #expect(long.end == .timeLimit)
        var large = make(bytes: 2_000, seconds: 60)
        for number in 0..<100 {
            let payload: [UInt8] = [0xF8] + [UInt8](repeating: 1, count: 99)
            let entry = RecordedEntry(
                recording: RecordingHandle(5), participant: ParticipantHandle(1),
                arrival: scene.now + .milliseconds(Int64(number) * 20), index: UInt64(number),
                ntp: NTPTime(rawValue: 0),
                ourNTP: NTPTime(rawValue: 0), timestamp: UInt32(number) * 960, ssrc: 1, byteCount: 100, section: 0,
                kind: .packet, codec: .opus, marker: false)
            payload.withUnsafeBytes { large.receive(entry, payload: $0) }
            large.advance(to: entry.arrival)
        }
        #expect(large.end == .sizeLimit)
    }
}
