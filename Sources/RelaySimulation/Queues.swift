import RTPCore
import RelayTesting

/// What is to be done, by time and then by the order in which it was asked for.
struct ActionQueue {
    private struct Entry: Comparable {
        var at: Instant
        var order: UInt64
        static func < (a: Entry, b: Entry) -> Bool { a.at == b.at ? a.order < b.order : a.at < b.at }
    }
    private var heap = Heap<Entry>()
    private var acts: [UInt64: () -> Void] = [:]
    private var order: UInt64 = 0

    var deadline: Instant { heap.first?.at ?? .distantFuture }

    mutating func add(at time: Instant, _ act: @escaping () -> Void) {
        acts[order] = act
        heap.add(Entry(at: time, order: order))
        order += 1
    }

    mutating func next(until now: Instant) -> (() -> Void)? {
        guard let first = heap.first, first.at <= now else { return nil }
        heap.removeFirst()
        return acts.removeValue(forKey: first.order)
    }
}

/// When clients are to be looked at. An entry may be too early: whoever takes it looks.
struct WakeUpQueue {
    private struct Entry: Comparable {
        var at: Instant
        var order: UInt64
        var seat: ClientSeat
        static func < (a: Entry, b: Entry) -> Bool { a.at == b.at ? a.order < b.order : a.at < b.at }
        static func == (a: Entry, b: Entry) -> Bool { a.order == b.order }
    }
    private var heap = Heap<Entry>()
    private var order: UInt64 = 0

    var deadline: Instant { heap.first?.at ?? .distantFuture }

    mutating func add(at time: Instant, _ seat: ClientSeat) {
        heap.add(Entry(at: time, order: order, seat: seat))
        order += 1
    }

    mutating func next(until now: Instant) -> ClientSeat? {
        while let first = heap.first, first.at <= now {
            heap.removeFirst()
            // One that was put forward has left its later entry behind.
            if first.at == first.seat.wakesAt {
                first.seat.wakesAt = .distantFuture
                return first.seat
            }
        }
        return nil
    }
}

/// A binary heap, the least first.
struct Heap<Element: Comparable> {
    private var elements: [Element] = []

    var first: Element? { elements.first }

    mutating func add(_ element: Element) {
        elements.append(element)
        var index = elements.count - 1
        while index > 0, elements[index] < elements[(index - 1) / 2] {
            elements.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    mutating func removeFirst() {
        let last = elements.removeLast()
        guard !elements.isEmpty else { return }
        elements[0] = last
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < elements.count && elements[child] < elements[least] {
                least = child
            }
            guard least != index else { return }
            elements.swapAt(index, least)
            index = least
        }
    }
}

/// A client and whose it is.
final class ClientSeat {
    let client: SimulatedClient
    /// When it is looked at next.
    var wakesAt = Instant.distantFuture
    /// Its owner or its network have done something that may explain silence.
    var isDisturbed = false
    init(_ client: SimulatedClient) { self.client = client }
}

/// Certificates that clients of one thread share: a key pair for each would be most of a run's time.
public final class ClientIdentities {
    private var made: [ClientDialect: DTLSClientIdentity] = [:]
    public init() {}
    func identity(of dialect: ClientDialect) -> DTLSClientIdentity {
        if let identity = made[dialect] { return identity }
        let identity = dialect.makeIdentity()
        made[dialect] = identity
        return identity
    }
}
