import RTPCore
import RelayCore
import RelayTesting
import Testing

/// RED (RFC 2198) between legs that have it and legs that have not.
@Suite("Redundant sound") struct RedundancyTests {
    /// A peer call; who offers RED is answered with it.
    static func makeCall(
        _ scene: CallScene, sender: Bool, receiver: Bool, repeats: Int = 1, dialect: ClientDialect = .chromium
    ) throws -> (a: CallScene.Participant, b: CallScene.Participant) {
        let room = scene.makeRoom()
        let a = try scene.prepare(
            scene.makeClient {
                $0.offersRED = sender
                $0.repeatedPackets = repeats
                $0.hasVideo = false
            }, in: room, joins: true)
        let b = try scene.prepare(
            scene.makeClient {
                $0.offersRED = receiver
                $0.dialect = dialect
                $0.hasVideo = false
            }, in: room, joins: true)
        scene.run(for: .seconds(1))
        return (a, b)
    }

    /// Loses the sound packets on one way whose count is named.
    static func lose(
        _ scene: CallScene, from source: PeerAddress, to target: PeerAddress, _ isLost: @escaping (Int) -> Bool
    ) {
        var count = 0
        scene.network.loses = { from, to, bytes in
            guard from == source, to == target, bytes[0] & 0xC0 == 0x80, !(192...223).contains(bytes[1]) else {
                return false
            }
            count += 1
            return isLost(count)
        }
    }

    @Test("what a sender repeats is repeated to a receiver with RED, under the receiver's payload types")
    func relayed() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: true, repeats: 2)
        scene.run(for: .seconds(2))
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.packetCount >= 140)
        // The very first packet has nothing to go along with it.
        #expect(stream.packetCount - stream.redCount <= 1)
        #expect(stream.repeatedStamps.count >= 2 * stream.redCount - 2)
        #expect(b.client.heard(.audio, from: a.client).count == stream.packetCount)
        #expect(b.client.counters.malformedRED == 0)
    }

    @Test("a receiver without RED gets the primaries as they are, numbers and times as without RED")
    func stripped() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false)
        scene.run(for: .seconds(2))
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.redCount == 0)
        #expect(stream.missingCount == 0)
        #expect(b.client.heard(.audio, from: a.client).count == stream.packetCount)
        let packets = stream.sorted
        #expect(packets.allSatisfy { $0.payloadType == 111 })
        #expect(zip(packets, packets.dropFirst()).allSatisfy { $1.timestamp &- $0.timestamp == 960 })
    }

    @Test("case R09: with Firefox's payload types as well")
    func otherPayloadType() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false, dialect: .firefox)
        scene.run(for: .seconds(1))
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.packets.allSatisfy { $0.payloadType == 109 })
        #expect(b.client.heard(.audio, from: a.client).count >= 45)
    }

    @Test("what is lost on the way to the relay and repeated is given to a receiver without RED in its place, once")
    func recovered() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false)
        Self.lose(scene, from: a.client.address, to: CallScene.relayAddress) { $0 % 5 == 0 }
        scene.run(for: .seconds(4))
        let stream = try #require(b.client.stream(.audio))
        #expect(scene.engine.counters.packetsRecovered >= 38)
        #expect(stream.missingCount <= 1)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard == Array(Set(heard)).sorted(), "each once, in order")
        let packets = stream.sorted
        #expect(zip(packets, packets.dropFirst()).allSatisfy { $1.timestamp &- $0.timestamp == 960 })
        #expect(stream.duplicateCount == 0)
    }

    @Test("two lost in a row come back where two are repeated")
    func twoInARow() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false, repeats: 2)
        Self.lose(scene, from: a.client.address, to: CallScene.relayAddress) { $0 % 7 < 2 }
        scene.run(for: .seconds(4))
        #expect(try #require(b.client.stream(.audio)).missingCount <= 2)
        #expect(scene.engine.counters.packetsRecovered >= 50)
    }

    @Test("a packet that comes after it was repeated is dropped and counted")
    func late() throws {
        var quality = VirtualNetwork.Quality.perfect
        quality.reordering = 0.2
        quality.reorderDelay = .milliseconds(70)
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false)
        scene.network.setQuality(quality, from: a.client.address, to: CallScene.relayAddress)
        scene.run(for: .seconds(4))
        #expect(scene.engine.counters[.redRecovered] >= 10)
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.duplicateCount == 0)
        let heard = b.client.heard(.audio, from: a.client)
        #expect(heard.count == Set(heard).count)
        #expect(stream.missingCount <= 1)
    }

    @Test(
        "whenever a packet comes that was taken out of RED before, its number is not used again",
        arguments: [(Interval.milliseconds(100), DropReason.redRecovered), (.seconds(2), .rtpTooOld)])
    func afterwards(wait: Interval, reason: DropReason) throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false)
        var held: [UInt8] = []
        scene.network.loses = { from, _, bytes in
            guard from == a.client.address, bytes[0] & 0xC0 == 0x80, !(192...223).contains(bytes[1]), held.isEmpty
            else {
                return false
            }
            held = bytes
            return true
        }
        scene.run(for: wait)
        #expect(scene.engine.counters.packetsRecovered >= 1)
        let dropped = scene.engine.counters[reason]
        scene.inject(held, from: a.client.address)
        scene.run(for: .milliseconds(200))
        #expect(scene.engine.counters[reason] == dropped + 1)
        #expect(try #require(b.client.stream(.audio)).missingCount == 0)
        #expect(b.client.counters.replayedRTP == 0)
    }

    @Test(
        "a sender without RED and a receiver with it, whose way loses 5 %: earlier packets go along after its reports")
    func added() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: false, receiver: true)
        #expect(try #require(b.client.stream(.audio)).redCount == 0)
        Self.lose(scene, from: CallScene.relayAddress, to: b.client.address) { $0 % 20 == 0 }
        scene.run(for: .seconds(4))
        let stream = try #require(b.client.stream(.audio))
        let before = (count: stream.packetCount, red: stream.redCount)
        let audible = b.client.audible(from: a.client).count
        scene.run(for: .seconds(4))
        #expect(stream.redCount - before.red == stream.packetCount - before.count, "each comes with the one before")
        #expect(b.client.audible(from: a.client).count - audible >= 199)
        #expect(b.client.counters.malformedRED == 0)
        // And it ends with the loss.
        scene.network.loses = nil
        scene.run(for: .seconds(25))
        let late = stream.redCount
        scene.run(for: .seconds(2))
        #expect(stream.redCount == late)
    }

    @Test("where a tenth is lost, two go along, so that two lost in a row are still heard")
    func deeper() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: false, receiver: true)
        Self.lose(scene, from: CallScene.relayAddress, to: b.client.address) { $0 % 20 < 2 }
        scene.run(for: .seconds(6))
        let audible = b.client.audible(from: a.client).count
        scene.run(for: .seconds(4))
        #expect(b.client.audible(from: a.client).count - audible >= 198)
    }

    @Test("a receiver without RED never gets any, whatever it loses")
    func neverUnasked() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: false)
        Self.lose(scene, from: CallScene.relayAddress, to: b.client.address) { $0 % 5 == 0 }
        scene.run(for: .seconds(6))
        #expect(try #require(b.client.stream(.audio)).packets.allSatisfy { $0.payloadType == 111 })
        #expect(scene.engine.counters.packetsMadeRedundant == 0)
        #expect(try #require(a.client.stream(.audio)).redCount == 0)
    }

    @Test("a pause of 200 ms does not keep the packet before it from going along, one of 400 ms does")
    func pauses() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: true)
        func pause(_ interval: Interval) throws -> Bool {
            scene.act(a.client) { $0.mute(.audio, true) }
            scene.run(for: interval)
            let stream = try #require(b.client.stream(.audio))
            let (packets, red) = (stream.packetCount, stream.redCount)
            scene.act(a.client) { $0.mute(.audio, false) }
            #expect(scene.run(until: { stream.packetCount > packets }, atMost: .milliseconds(100)))
            return stream.redCount > red
        }
        #expect(try pause(.milliseconds(200)))
        scene.run(for: .milliseconds(500))
        #expect(try !pause(.milliseconds(400)))
        #expect(b.client.counters.malformedRED == 0)
    }

    @Test("packets too long to go along are sent alone, and no datagram is longer than 1,200 bytes")
    func long() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        var longest = 0
        scene.onTransmit = { bytes, _ in longest = max(longest, bytes.count) }
        let a = try scene.prepare(
            scene.makeClient {
                $0.audioPayloadByteCount = 480
                $0.hasVideo = false
            }, in: room, joins: true)
        let b = try scene.prepare(
            scene.makeClient {
                $0.offersRED = true
                $0.hasVideo = false
            }, in: room, joins: true)
        scene.run(for: .seconds(1))
        Self.lose(scene, from: CallScene.relayAddress, to: b.client.address) { $0 % 5 == 0 }
        scene.run(for: .seconds(6))
        let stream = try #require(b.client.stream(.audio))
        #expect(stream.redCount > 50)
        #expect(stream.repeatedStamps.count == stream.redCount, "two do not fit")
        #expect(longest <= 1_200)
        #expect(b.client.heard(.audio, from: a.client).count > 250)
    }

    @Test("nothing from before a gate opened is repeated behind it", arguments: [true, false])
    func gate(senderHasRED: Bool) throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: senderHasRED, receiver: true)
        if !senderHasRED {
            Self.lose(scene, from: CallScene.relayAddress, to: b.client.address) { $0 % 10 == 0 }
            scene.run(for: .seconds(4))
            scene.network.loses = nil
        }
        let stream = try #require(b.client.stream(.audio))
        scene.setGates(.serverAudio, of: a)
        scene.run(for: .milliseconds(300))
        let muted = a.client.sentCount(.audio)
        let (heard, repeated) = (stream.packetCount, stream.repeatedStamps.count)
        scene.run(for: .milliseconds(500))
        #expect(stream.packetCount == heard)
        scene.setGates([], of: a)
        scene.run(for: .milliseconds(500))
        #expect(stream.repeatedStamps.count > repeated)
        let first = try #require(b.client.heard(.audio, from: a.client).first { $0 >= muted })
        #expect(first >= muted + 20)
        #expect(b.client.audible(from: a.client).isDisjoint(with: muted..<first))
    }

    @Test("RED that does not end, overruns or carries another kind of block is dropped, and the call goes on")
    func malformed() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: true)
        let ssrc = try #require(a.client.sendingSSRC(.audio))
        let rows =
            VectorFile("red").rows("unparsable").map(\.bytes) + [[0x6E, 1, 2, 3], [0xEF, 0x0F, 0, 1, 0x00, 1, 2]]
        let before = scene.engine.counters[.redMalformed]
        for payload in rows {
            let index = a.client.nextSequence(.audio)
            a.client.setNextIndex(.audio, index + 1)
            let header: [UInt8] =
                [0x80, 63] + [UInt8(truncatingIfNeeded: index >> 8), UInt8(truncatingIfNeeded: index)] + [0, 0, 0, 0]
                + (0..<4).map { UInt8(truncatingIfNeeded: ssrc >> UInt32(24 - 8 * $0)) }
            scene.act(a.client) { $0.sendProtected(rtp: header + payload, headerByteCount: 12, index: index) }
        }
        scene.run(for: .seconds(1))
        #expect(scene.engine.counters[.redMalformed] - before == UInt64(rows.count))
        #expect(b.client.heard(.audio, from: a.client).count >= 90)
        #expect(b.client.counters.malformedRED == 0)
    }

    @Test("without RED in the answer a packet of its payload type is dropped, on an SSRC that is known as on a new one")
    func notNegotiated() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: false, receiver: true)
        let ssrc = try #require(a.client.sendingSSRC(.audio))
        let before = scene.engine.counters[.rtpUnknownPayloadType]
        for (source, number) in [(ssrc, a.client.nextSequence(.audio) + 3), (ssrc &+ 1, 50)] {
            let header: [UInt8] =
                [0x80, 63, UInt8(truncatingIfNeeded: number >> 8), UInt8(truncatingIfNeeded: number), 0, 0, 0, 0]
                + (0..<4).map { UInt8(truncatingIfNeeded: source >> UInt32(24 - 8 * $0)) }
            scene.act(a.client) {
                $0.sendProtected(rtp: header + [0x6F, 0xBB], headerByteCount: 12, index: number)
            }
        }
        scene.run(for: .milliseconds(500))
        #expect(scene.engine.counters[.rtpUnknownPayloadType] - before == 2)
        #expect(try #require(b.client.stream(.audio)).packets.allSatisfy { $0.payload.count > 2 })
    }

    @Test("in a group each slot has what its receiver negotiated, and levels are read as without RED")
    func group() throws {
        let scene = try CallScene()
        let room = scene.makeRoom()
        let people = try [true, true, false].map { hasRED in
            try scene.prepare(
                scene.makeClient {
                    $0.offersRED = hasRED
                    $0.extraAudioSlots = 1
                    $0.extraVideoSlots = 1
                }, in: room, kind: .group, joins: true)
        }
        scene.run(for: .seconds(3))
        for receiver in people {
            for sender in people where sender !== receiver {
                #expect(GroupTests.heard(receiver.client, from: sender.client, slots: 2) >= 120)
            }
        }
        func red(_ receiver: Int) -> Int {
            (0..<2).reduce(0) { $0 + (people[receiver].client.stream(.audio, slot: $1)?.redCount ?? 0) }
        }
        #expect(red(0) > 100 && red(1) > 100)
        #expect(red(2) == 0)
    }

    @Test("another SSRC of the sender begins anew: nothing of the first is repeated under the second")
    func sourceChange() throws {
        let scene = try CallScene()
        let (a, b) = try Self.makeCall(scene, sender: true, receiver: true)
        let stream = try #require(b.client.stream(.audio))
        a.client.changeSSRC(.audio, to: 77)
        scene.run(for: .seconds(2))
        #expect(stream.missingCount == 0)
        let packets = stream.sorted
        #expect(
            zip(packets, packets.dropFirst()).allSatisfy {
                TimestampArithmetic.isNewer($1.timestamp, than: $0.timestamp)
            })
        #expect(b.client.heard(.audio, from: a.client).count == stream.packetCount)
        #expect(b.client.counters.malformedRED == 0)
    }
}
