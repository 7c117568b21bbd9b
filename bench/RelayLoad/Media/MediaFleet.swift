import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// Thousands of WebRTC clients on one port: offer, ICE, DTLS, checks, reports and feedback are those of `SimulatedClient`, as
/// in every other scenario; their media is made and counted by `MediaMill`, which is cheap enough to load a worker fully.
/// Confined to the loop's thread.
final class MediaFleet: LoopHandler, LoopTicker, @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    var isTimed: Bool { false }
    let bench: LoadBench
    let port: LoadPort
    private(set) var clients: [MediaClient] = []
    var mill: MediaMill?
    private var due = Heap<Due>()
    private var token: UInt64 = 0
    private let identity = DTLSClientIdentity()

    private struct Due: Comparable {
        var at: Instant
        var client: Int
        static func < (a: Due, b: Due) -> Bool { a.at < b.at }
        static func == (a: Due, b: Due) -> Bool { a.at == b.at }
    }

    init(_ bench: LoadBench) throws {
        self.bench = bench
        port = try LoadPort()
        token = try bench.loop.add(self, port.descriptor, for: .reading)
        bench.loop.ticker = self
    }

    /// Says nothing to anybody: the relay is to be stopped.
    func stop() {
        bench.loop.remove(token, port.descriptor)
        bench.loop.ticker = nil
        for client in clients { client.control.vanish() }
        mill = nil
    }

    // MARK: Making clients

    enum Media: String { case audio, video }

    /// What a room is to be.
    struct Room {
        var kind = "peer"
        var media = Media.audio
        var size = 2
        /// Of these, how many are not the fleet's: they come by themselves.
        var guests = 0
        var seats: Int { size - guests }
        /// Joined, or prepared only.
        var joins = true
    }

    private final class Filling: @unchecked Sendable {
        // @unchecked: confined to the loop's thread.
        var next = 0
        var running = 0
        var failure: (any Error)?
    }

    /// Fills as many rooms as it takes until there are `count` clients, `concurrency` at a time, all connected.
    func grow(to count: Int, in room: Room, concurrency: Int = 24) async throws {
        let rooms = (count - clients.count + room.seats - 1) / room.seats
        guard rooms > 0 else { return }
        guard clients.count + rooms * room.seats <= LoadPort.capacity else { throw LoadFailure("too many clients") }
        let filling = Filling()
        for _ in 0..<min(concurrency, rooms) {
            filling.running += 1
            bench.loop.spawn { [self] in
                while filling.next < rooms, filling.failure == nil {
                    filling.next += 1
                    do { try await fill(room) } catch { filling.failure = error }
                }
                filling.running -= 1
            }
        }
        while filling.running > 0 {
            await bench.loop.sleep(for: .milliseconds(5))
            bench.report.progress(MonotonicClock.now(), "\(clients.count) of \(count) clients")
        }
        if let failure = filling.failure { throw failure }
    }

    /// A room with its people.
    private func fill(_ room: Room) async throws {
        let number = bench.nextCall()
        let reply = try await bench.http.json(
            "POST", "/v1/rooms", token: bench.http.server,
            #"{"kind":"\#(room.kind)","media":"\#(room.media.rawValue)"}"#)
        try LoadBench.expect(reply, 201, of: "create")
        guard let id = reply.field("id") else { throw LoadFailure("a room without id") }
        // Numbers of a room's people are neighbours.
        let first = clients.count
        for seat in 0..<room.seats {
            clients.append(try makeClient(first + seat, room, id: id, uid: "u\(number)-\(seat)", firstOfRoom: first))
        }
        for client in clients[first..<first + room.seats] {
            let reply = try await bench.http.ask(
                "POST", "/v1/rooms/\(id)/sessions?state=\(room.joins ? "joined" : "prepared")",
                token: bench.http.token(client.uid, id), type: "application/sdp", body: client.control.offer())
            try LoadBench.expect(reply, 201, of: "session of \(client.uid)")
            client.location = reply.location ?? ""
            try client.control.accept(answer: reply.body, now: MonotonicClock.now())
            settle(client, now: MonotonicClock.now())
        }
        for client in clients[first..<first + room.seats] {
            guard await wait(for: client, until: { $0.isConnected }) else {
                throw LoadFailure("\(client.uid) did not connect: \(client.control.phase)")
            }
        }
    }

    private func makeClient(
        _ number: Int, _ room: Room, id: String, uid: String, firstOfRoom: Int
    ) throws -> MediaClient {
        var options = SimulatedClient.Options()
        options.seed = bench.options.seed &* 1_000_003 &+ UInt64(number) &+ 7
        options.dialect = .libwebrtc
        options.hasVideo = room.media == .video
        options.sendsAtOnce = false
        options.keepsPackets = false
        options.identity = identity
        if room.kind == "group" {
            options.extraAudioSlots = room.size - 2
            options.extraVideoSlots = room.size - 2
        }
        let address = PeerAddress(ipv4: LoadPort.address(number), port: port.port)
        return MediaClient(
            number: number, control: SimulatedClient(options, address: address), room: id, uid: uid,
            roommates: firstOfRoom..<firstOfRoom + room.seats, hasGuests: room.guests > 0)
    }

    private func wait(for client: MediaClient, until condition: (SimulatedClient) -> Bool) async -> Bool {
        let limit = MonotonicClock.now() + .seconds(15)
        while !condition(client.control), MonotonicClock.now() < limit {
            await bench.loop.sleep(for: .milliseconds(2))
        }
        return condition(client.control)
    }

    // MARK: Packets that are not media

    func ready(_ event: Poller.Event, now: Instant) {
        for _ in 0..<8 {
            let count = port.receive { take($0, now: now) }
            if count < LoadPort.slotCount { break }
        }
    }

    /// One datagram for one of the clients.
    @inline(__always) func take(_ arrival: LoadPort.Arrival, now: Instant) {
        guard clients.indices.contains(arrival.client), arrival.count >= 12 else { return }
        let (first, second) = (arrival.bytes[0], arrival.bytes[1])
        if first >> 6 == 2 {
            if !(192...223).contains(second) {
                mill?.take(arrival, now: now)
                return
            }
            // What came of the transport-wide numbers that media carried is not looked at.
            if second == 205, first & 31 == 15 { return }
        }
        let client = clients[arrival.client]
        let bytes = Array(UnsafeBufferPointer(start: arrival.bytes, count: arrival.count))
        client.control.receive(bytes, from: arrival.peer, now: now)
        settle(client, now: now)
    }

    var deadline: Instant { due.first?.at ?? .distantFuture }

    /// What is due of a few clients: their media goes on in between.
    func advance(to now: Instant) {
        var count = 0
        while let first = due.first, first.at <= now, count < 4 {
            _ = due.removeFirst()
            count += 1
            let client = clients[first.client]
            guard client.scheduledAt == first.at else { continue }
            client.scheduledAt = .distantFuture
            if client.control.deadline <= now { client.control.advance(to: now) }
            settle(client, now: now)
        }
    }

    private func settle(_ client: MediaClient, now: Instant) {
        for datagram in client.control.takeDatagrams() {
            let slot = port.slot()
            let count = min(datagram.bytes.count, LoadPort.slotByteCount)
            datagram.bytes.withUnsafeBufferPointer { bytes in
                if let base = bytes.baseAddress { slot.update(from: base, count: count) }
            }
            port.commit(count, from: client.number, to: datagram.to.port, joins: false)
        }
        port.flush()
        schedule(client, at: client.control.deadline)
    }

    func schedule(_ client: MediaClient, at: Instant) {
        guard at < client.scheduledAt, at < .distantFuture else { return }
        client.scheduledAt = at
        due.insert(Due(at: at, client: client.number))
    }
}

/// One client of a `MediaFleet`.
final class MediaClient {
    let number: Int
    let control: SimulatedClient
    let room: String
    let uid: String
    /// Numbers of the fleet's people in its room, itself among them.
    let roommates: Range<Int>
    /// There are others in it.
    let hasGuests: Bool
    var location = ""
    fileprivate(set) var scheduledAt = Instant.distantFuture

    init(number: Int, control: SimulatedClient, room: String, uid: String, roommates: Range<Int>, hasGuests: Bool) {
        self.number = number
        self.control = control
        self.room = room
        self.uid = uid
        self.roommates = roommates
        self.hasGuests = hasGuests
    }
}
