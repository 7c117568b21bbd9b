import Glibc
import MediaRelay
import RTPCore
import RelayCore
import RelayLoadKit
import RelayTesting

/// Thousands of WebRTC clients on one port, in rooms of the bench's relay: makes the rooms and fills them. Confined to the loop's
/// thread.
final class MediaFleet: LoopHandler, LoopTicker, @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    var isTimed: Bool { false }
    let bench: LoadBench
    let set: ClientSet
    private(set) var clients: [LoadClient] = []
    private var token: UInt64 = 0
    private let identity = DTLSClientIdentity()

    init(_ bench: LoadBench) throws {
        self.bench = bench
        set = ClientSet(try LoadPort())
        token = try bench.loop.add(self, set.port.descriptor, for: .reading)
        bench.loop.ticker = self
    }

    /// Says nothing to anybody: the relay is to be stopped.
    func stop() {
        bench.loop.remove(token, set.port.descriptor)
        bench.loop.ticker = nil
        for client in clients { client.control.vanish() }
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
            set.add(clients[first + seat])
        }
        for client in clients[first..<first + room.seats] {
            let reply = try await bench.http.ask(
                "POST", "/v1/rooms/\(id)/sessions?state=\(room.joins ? "joined" : "prepared")",
                token: bench.http.token(client.uid, id), type: "application/sdp", body: client.control.offer())
            try LoadBench.expect(reply, 201, of: "session of \(client.uid)")
            client.location = reply.location ?? ""
            try client.control.accept(answer: reply.body, now: MonotonicClock.now())
            set.settle(client, now: MonotonicClock.now())
        }
        for client in clients[first..<first + room.seats] {
            guard await wait(for: client, until: { $0.isConnected }) else {
                throw LoadFailure("\(client.uid) did not connect: \(client.control.phase)")
            }
        }
    }

    private func makeClient(
        _ number: Int, _ room: Room, id: String, uid: String, firstOfRoom: Int
    ) throws -> LoadClient {
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
        let address = PeerAddress(ipv4: LoadPort.address(number), port: set.port.port)
        return LoadClient(
            number: number, control: SimulatedClient(options, address: address), room: id, uid: uid,
            roommates: firstOfRoom..<firstOfRoom + room.seats, hasGuests: room.guests > 0)
    }

    private func wait(for client: LoadClient, until condition: (SimulatedClient) -> Bool) async -> Bool {
        let limit = MonotonicClock.now() + .seconds(15)
        while !condition(client.control), MonotonicClock.now() < limit {
            await bench.loop.sleep(for: .milliseconds(2))
        }
        return condition(client.control)
    }

    // MARK: The loop

    func ready(_ event: Poller.Event, now: Instant) { set.receive(now: now) }
    var deadline: Instant { self.set.deadline }
    func advance(to now: Instant) { set.advance(to: now) }
}
