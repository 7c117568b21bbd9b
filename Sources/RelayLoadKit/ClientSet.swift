import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

/// One client of a load: what is not media (offer, ICE, DTLS, checks, reports, feedback) is a `SimulatedClient`'s.
package final class LoadClient {
    package let number: Int
    package let control: SimulatedClient
    package let room: String
    package let uid: String
    /// Numbers of the people of its room, itself among them.
    package let roommates: Range<Int>
    /// There are others in it, whose media is not the mill's.
    package let hasGuests: Bool
    /// Of its session at the server.
    package var location = ""
    /// Its media, where its reports tell of it.
    package var leg: MediaLeg?
    package fileprivate(set) var scheduledAt = Instant.distantFuture
    package fileprivate(set) var connectedAt: Instant?
    /// When media of others first came.
    package internal(set) var firstPacketAt: Instant?

    package init(
        number: Int, control: SimulatedClient, room: String, uid: String, roommates: Range<Int>, hasGuests: Bool = false
    ) {
        self.number = number
        self.control = control
        self.room = room
        self.uid = uid
        self.roommates = roommates
        self.hasGuests = hasGuests
    }
}

/// The clients on one `LoadPort`, and everything of theirs that is not media. That is made and counted by `MediaMill`, which is
/// cheap enough to load a server fully. One thread.
package final class ClientSet {
    package let port: LoadPort
    /// Sets this itself while it lives.
    unowned(unsafe) var mill: MediaMill?
    /// Called when a client's keys are there.
    package var onConnected: ((LoadClient) -> Void)?
    private var clients: [LoadClient?] = []
    private var due = Heap<Due>()

    private struct Due: Comparable {
        var at: Instant
        var client: Int
        static func < (a: Due, b: Due) -> Bool { a.at < b.at }
        static func == (a: Due, b: Due) -> Bool { a.at == b.at }
    }

    package init(_ port: LoadPort) { self.port = port }

    /// A client at the place that its number says; one that was there is gone.
    package func add(_ client: LoadClient) {
        while clients.count <= client.number { clients.append(nil) }
        clients[client.number] = client
    }

    /// The client has sent its last.
    package func remove(_ client: LoadClient) {
        client.leg = nil
        guard clients.indices.contains(client.number), clients[client.number] === client else { return }
        clients[client.number] = nil
        port.close(client.number)
    }

    package var all: [LoadClient] { clients.compactMap { $0 } }

    package subscript(number: Int) -> LoadClient? { clients.indices.contains(number) ? clients[number] : nil }

    /// Takes what has come, some batches at most.
    package func receive(now: Instant) {
        for _ in 0..<8 where port.receive({ take($0, now: now) }) == LoadPort.slotCount {}
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
        guard let client = clients[arrival.client] else { return }
        let bytes = Array(UnsafeBufferPointer(start: arrival.bytes, count: arrival.count))
        client.control.receive(bytes, from: arrival.peer, now: now)
        settle(client, now: now)
    }

    package var deadline: Instant { due.first?.at ?? .distantFuture }

    /// What is due of a few clients: media goes on in between.
    package func advance(to now: Instant) {
        var count = 0
        while let first = due.first, first.at <= now, count < 4 {
            _ = due.removeFirst()
            count += 1
            guard let client = clients[first.client], client.scheduledAt == first.at else { continue }
            client.scheduledAt = .distantFuture
            if client.control.deadline <= now {
                client.leg?.tellReports(now: now)
                client.control.advance(to: now)
            }
            settle(client, now: now)
        }
    }

    /// Sends what the client wants to say, and notes when it wants to be asked again.
    package func settle(_ client: LoadClient, now: Instant) {
        for datagram in client.control.takeDatagrams() {
            let slot = port.slot()
            let count = min(datagram.bytes.count, LoadPort.slotByteCount)
            datagram.bytes.withUnsafeBufferPointer { bytes in
                if let base = bytes.baseAddress { slot.update(from: base, count: count) }
            }
            port.commit(count, from: client.number, to: datagram.to, joins: false)
        }
        port.flush()
        schedule(client, at: client.control.deadline)
        guard client.connectedAt == nil, client.control.isConnected else { return }
        client.connectedAt = now
        onConnected?(client)
    }

    func schedule(_ client: LoadClient, at: Instant) {
        guard at < client.scheduledAt, at < .distantFuture else { return }
        client.scheduledAt = at
        due.insert(Due(at: at, client: client.number))
    }
}
