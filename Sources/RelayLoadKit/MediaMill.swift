import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// What the clients of a run send. Audio: 50 packets of 120 bytes a second. Video besides: 37.5 pictures of 4 packets with 1,150
/// bytes a second. Bytes are those of RTP header and payload, before protection.
package enum MediaProfile: String, CaseIterable, Sendable {
    case audio
    case audioVideo = "av"

    /// A client's packets in a second.
    package var packetsPerSecond: Int { self == .audio ? 50 : 200 }
    /// A 1:1 call's, both ways.
    package var packetsPerCall: Int { 2 * packetsPerSecond }
    static let audioByteCount = 120
    static let videoByteCount = 1_150
    static let burst = 4
    static let audioPeriod: Int64 = 20_000_000
    static let videoPeriod: Int64 = 26_666_667
}

/// Makes the media of a set's clients in time, by way of one forwarder at a time, and counts what comes back. Everything that
/// comes is counted and looked through for gaps; each fifth packet is opened, compared with what was sent, and its way timed.
/// One thread, which `run` takes for itself: one processor is the clients'.
package final class MediaMill {
    static let sampleEvery = 5

    private let set: ClientSet
    /// By client; empty: that client has no media this way.
    private var legs: [MediaLeg?] = []
    private let sound: UnsafeMutablePointer<UInt8>
    private let picture: UnsafeMutablePointer<UInt8>
    /// The schedule of each kind: who sends, when within a period.
    private var audio = Cycle(period: MediaProfile.audioPeriod)
    private var video = Cycle(period: MediaProfile.videoPeriod)
    private let spins: Bool
    private let poller: Poller
    // What came.
    package private(set) var received = 0
    package private(set) var receivedByteCount = 0
    /// Numbers that did not come.
    package private(set) var gaps = 0
    package private(set) var unopened = 0
    /// Of those that were opened: what the set did not send.
    package private(set) var fromGuests = 0
    package private(set) var sent = 0
    package private(set) var sentByteCount = 0
    /// By how much a packet was sent late at most, ns.
    package private(set) var behind: Int64 = 0
    private var latencies: [Int32] = []
    private var isTiming = false
    private var turns = 0
    /// Called when `run` is over.
    package var afterRun: () -> Void = {}

    /// Who sends when: offsets within a period, in order.
    private struct Cycle {
        var period: Int64
        var entries: [(offset: Int64, client: Int32)] = []
        var next = 0
        var round: Int64 = 0

        mutating func begin(_ clients: Range<Int>, _ random: inout RandomSource) {
            entries = clients.map { (Int64.random(in: 0..<period, using: &random), Int32($0)) }
            entries.sort { $0.offset < $1.offset }
            next = 0
            round = 0
        }

        /// Since the run's start; never when nobody sends.
        var due: Int64 { entries.isEmpty ? .max : round * period + entries[next].offset }

        mutating func advance() {
            next += 1
            guard next == entries.count else { return }
            next = 0
            round += 1
        }
    }

    /// `spins`: `run` does not sleep between packets, where there are two processors.
    package init(_ set: ClientSet, spins: Bool) throws {
        self.set = set
        self.spins = spins && sysconf(Int32(_SC_NPROCESSORS_ONLN)) > 1
        sound = .allocate(capacity: LoadPort.slotByteCount)
        picture = .allocate(capacity: LoadPort.slotByteCount)
        poller = try Poller()
        try poller.add(set.port.descriptor, token: 1, for: .reading)
        for index in 0..<LoadPort.slotByteCount {
            sound[index] = UInt8(truncatingIfNeeded: index &* 31)
            picture[index] = sound[index]
        }
        latencies.reserveCapacity(400_000)
        set.mill = self
    }

    deinit {
        set.mill = nil
        sound.deallocate()
        picture.deallocate()
    }

    /// Directs everything to a forwarder: `legs` by client.
    package func use(_ legs: [MediaLeg?]) { self.legs = legs }

    /// The client has media from now on, or none any more.
    package func set(_ leg: MediaLeg?, of client: Int) {
        while legs.count <= client { legs.append(nil) }
        legs[client] = leg
    }

    /// Chooses who sends. Phases are drawn, so packets come as those of people who do not know each other.
    package func schedule(_ clients: Range<Int>, _ profile: MediaProfile, slowedBy factor: Int64 = 1, seed: UInt64) {
        var random = RandomSource.seeded(seed)
        audio = Cycle(period: MediaProfile.audioPeriod * factor)
        video = Cycle(period: MediaProfile.videoPeriod * factor)
        audio.begin(clients, &random)
        video.begin(profile == .audioVideo ? clients : 0..<0, &random)
        origin = MonotonicClock.now().nanoseconds
    }

    private var origin: Int64 = 0

    /// Begins to count anew.
    package func reset() {
        (received, receivedByteCount, gaps, unopened, fromGuests) = (0, 0, 0, 0, 0)
        (sent, sentByteCount, behind) = (0, 0, 0)
        latencies.removeAll(keepingCapacity: true)
        isTiming = false
    }

    package func startTiming() { isTiming = true }

    /// The times of the packets that were timed, ns, sorted.
    package func takeLatencies() -> [Int32] { latencies.sorted() }

    /// Sends what is due, takes what has come, lets clients do what is due. Whether there was media.
    package func turn(now: Instant) -> Bool {
        let made = sendDue(now.nanoseconds)
        let came = set.port.receive { set.take($0, now: now) }
        turns &+= 1
        if set.deadline <= now, made == 0 || turns & 7 == 0 { set.advance(to: now) }
        return made > 0 || came > 0
    }

    /// When the next turn has something to do, if nothing comes.
    package var deadline: Instant {
        min(Instant(nanoseconds: origin &+ min(audio.due, video.due, Int64.max / 2 - origin)), set.deadline)
    }

    /// Sends and receives until then.
    package func run(until end: Instant) {
        while true {
            let now = MonotonicClock.now()
            guard now < end else { break }
            guard !turn(now: now), !spins else { continue }
            _ = poller.wait(until: min(end, deadline), now: MonotonicClock.now())
        }
        afterRun()
    }

    /// Only receives: what is still under way.
    package func drain(for interval: Interval) {
        let end = MonotonicClock.now() + interval
        while true {
            let now = MonotonicClock.now()
            guard now < end else { return }
            if set.port.receive({ set.take($0, now: now) }) == 0 {
                if set.deadline <= now { set.advance(to: now) }
                _ = poller.wait(until: min(end, set.deadline), now: MonotonicClock.now())
            }
        }
    }

    // MARK: Sending

    /// Packets that are sent together at most: the last one was stamped when the first was.
    private static let batch = 16

    /// What is due, at most a batch.
    private func sendDue(_ now: Int64) -> Int {
        let elapsed = now - origin
        guard min(audio.due, video.due) <= elapsed else { return 0 }
        let stamp = LoadPort.wallTime()
        var count = 0
        while count < Self.batch {
            if audio.due <= elapsed {
                behind = max(behind, elapsed - audio.due)
                send(Int(audio.entries[audio.next].client), stream: 0, packets: 1, stamp)
                audio.advance()
                count += 1
            } else if video.due <= elapsed {
                behind = max(behind, elapsed - video.due)
                send(Int(video.entries[video.next].client), stream: 1, packets: MediaProfile.burst, stamp)
                video.advance()
                count += MediaProfile.burst
            } else {
                break
            }
        }
        if count > 0 { set.port.flush() }
        return count
    }

    @inline(__always) private func send(_ client: Int, stream: Int, packets: Int, _ stamp: Int64) {
        guard client < legs.count, let leg = legs[client], stream < leg.outgoing.count else { return }
        let byteCount =
            (stream == 0 ? MediaProfile.audioByteCount : MediaProfile.videoByteCount) - MediaLeg.headerByteCount
        for packet in 0..<packets {
            let count = leg.makePacket(
                stream, at: set.port.slot(), payload: stream == 0 ? sound : picture, payloadByteCount: byteCount,
                isFirst: packet == 0,
                marker: packet == packets - 1, now: stamp)
            set.port.commit(count, from: client, to: leg.target, joins: packet > 0)
            sentByteCount += count
        }
        sent += packets
    }

    // MARK: Receiving

    /// A packet of RTP.
    @inline(__always) func take(_ arrival: LoadPort.Arrival, now: Instant) {
        guard arrival.client < legs.count, let leg = legs[arrival.client], arrival.peer == leg.target,
            let header = RTPHeader(UnsafeBufferPointer(start: arrival.bytes, count: arrival.count).span),
            header.payloadType != leg.repairType
        else { return }
        let stream = index(of: header.ssrc, in: leg)
        let index = leg.incoming[stream].estimator.estimate(header.sequenceNumber)
        leg.incoming[stream].estimator.update(index)
        let next = leg.incoming[stream].next
        if index >= next {
            if next != 0 { gaps += Int(index - next) }
            leg.incoming[stream].next = index + 1
        } else if gaps > 0 {
            // It was overtaken, not lost.
            gaps -= 1
        }
        received += 1
        receivedByteCount += arrival.count
        if leg.client.firstPacketAt == nil { leg.client.firstPacketAt = now }
        if leg.transportCCID != 0 { noteNumber(header, arrival, leg, now) }
        leg.sampled += 1
        guard leg.sampled == Self.sampleEvery else { return }
        leg.sampled = 0
        open(arrival, header, leg, index)
    }

    @inline(__always) private func index(of ssrc: UInt32, in leg: MediaLeg) -> Int {
        for stream in leg.incoming.indices where leg.incoming[stream].ssrc == ssrc { return stream }
        leg.incoming.append(MediaLeg.Incoming(ssrc: ssrc))
        return leg.incoming.count - 1
    }

    @inline(__always) private func noteNumber(
        _ header: RTPHeader, _ arrival: LoadPort.Arrival, _ leg: MediaLeg, _ now: Instant
    ) {
        let bytes = UnsafeBufferPointer(start: arrival.bytes, count: arrival.count).span
        var cursor = HeaderExtensionCursor(header)
        while let element = cursor.next(in: bytes) {
            guard element.id == leg.transportCCID, element.byteCount == 2 else { continue }
            let number = UInt16(bytes[element.offset]) << 8 | UInt16(bytes[element.offset + 1])
            if leg.client.control.noteArrival(number, now: now, within: .milliseconds(100)) {
                set.schedule(leg.client, at: now + .milliseconds(100))
            }
            return
        }
    }

    private func open(
        _ arrival: LoadPort.Arrival, _ header: RTPHeader, _ leg: MediaLeg, _ index: UInt64
    ) {
        let count = leg.receiving.openRTP(
            arrival.bytes, count: arrival.count, headerByteCount: header.headerByteCount, ssrc: header.ssrc,
            index: index)
        guard count >= 0 else {
            unopened += 1
            return
        }
        let content = arrival.bytes + header.headerByteCount
        let byteCount = count - header.headerByteCount
        let at = byteCount > MediaProfile.audioByteCount ? MediaLeg.videoStamp : MediaLeg.audioStamp
        guard byteCount >= at + MediaLeg.stampByteCount,
            case let sender = Int(MediaLeg.load(content + at) >> 32), sender != arrival.client,
            leg.client.roommates.contains(sender),
            (at + MediaLeg.stampByteCount..<byteCount).allSatisfy({
                content[$0] == UInt8(truncatingIfNeeded: $0 &* 31)
            })
        else {
            // It is authentic: where somebody else is in the room it may be theirs.
            if leg.client.hasGuests { fromGuests += 1 } else { unopened += 1 }
            return
        }
        guard isTiming else { return }
        let took = set.port.arrivalTime(arrival) - Int64(bitPattern: MediaLeg.load(content + at + 8))
        latencies.append(Int32(clamping: took))
    }
}
