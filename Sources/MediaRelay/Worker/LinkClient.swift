import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// A worker's end of the link: connects to control, again and again while it is away, says hello, tells news
/// and keeps those that control may not have taken over. Media loop's thread; driven by its poller.
package final class LinkClient {
    /// How often a worker knocks while control is away.
    package static let retryInterval = Interval.milliseconds(100)
    /// A worker that nobody adopts for so long ends its rooms and exits (CALLS.md).
    package static let unadoptedLimit = Interval.seconds(300)
    package static let keptNewsLimit = 10_000

    /// A new connection, watched already; nil: nobody listens.
    private let connect: () -> LinkConnection?
    private var connection: LinkConnection?
    private var keeper = NewsKeeper(limit: keptNewsLimit)
    private var nextTry: Instant
    /// Since when nobody has adopted this worker; nil while it is adopted.
    private var aloneSince: Instant?

    /// Over the Unix socket at `path`, watched by `poller` under `token`.
    package convenience init(path: String, poller: Poller, token: UInt64, now: Instant) {
        self.init(now: now) {
            let descriptor = Syscall.retrying { lio_unix_connect(path) }
            guard descriptor >= 0 else {
                // Nobody listens (yet): the file is missing, or left over, or its queue is full.
                Syscall.trapOnBug(-descriptor, "connect link")
                return nil
            }
            let connection = LinkConnection(taking: descriptor)
            // Without room in the poller the next try may find some.
            return (try? connection.attach(to: poller, token: token)) == nil ? nil : connection
        }
    }

    package init(now: Instant, connect: @escaping () -> LinkConnection?) {
        self.connect = connect
        nextTry = now
        aloneSince = now
    }

    /// Control is away, or has not taken over what it was told yet.
    package var isAlone: Bool { aloneSince != nil }
    package var isConnected: Bool { connection != nil }
    package var keptNewsCount: Int { keeper.keptCount }
    package var droppedNewsCount: UInt64 { keeper.droppedCount }

    /// When `advance` is to be called at the latest.
    package var deadline: Instant {
        let retry = connection == nil ? nextTry : .distantFuture
        return min(retry, aloneSince.map { $0 + Self.unadoptedLimit } ?? .distantFuture)
    }

    /// Nobody has adopted this worker for five minutes.
    package func hasBeenGivenUp(now: Instant) -> Bool {
        aloneSince.map { now - $0 >= Self.unadoptedLimit } ?? false
    }

    /// Connects when it is time, and says the hello that `makeHello` makes around the kept news.
    package func advance(to now: Instant, makeHello: ([WorkerNews]) -> WorkerHello) {
        guard connection == nil, nextTry <= now else { return }
        nextTry = now + Self.retryInterval
        guard let connection = connect() else { return }
        self.connection = connection
        send(.hello(makeHello(keeper.startHello(now: now))), now: now)
    }

    package func tell(_ news: [WorkerNews], now: Instant) {
        for item in news {
            keeper.append(item, now: now)
            send(.news(item), now: now)
        }
    }

    package func tell(_ counters: [WorkerCounter], now: Instant) { send(.counters(counters), now: now) }
    package func tell(_ load: WorkerLoad, now: Instant) { send(.load(load), now: now) }

    /// A capture's part is not kept: while control is away nobody waits for it.
    package func tell(_ part: CapturePart, now: Instant) { send(.captured(part), now: now) }

    /// The commands that have come, without `.adopted`, which is taken here.
    package func receive(_ event: Poller.Event, now: Instant) -> [WorkerCommand] {
        if event.isWritable { flush(now: now) }
        return event.isReadable || event.isHungUp ? receive(now: now) : []
    }

    /// The connection takes more.
    package func flush(now: Instant) {
        guard let connection else { return }
        do throws(LinkClosing) { try connection.flush() } catch { lose(now: now) }
    }

    /// The same without waiting for the poller's word.
    package func receive(now: Instant) -> [WorkerCommand] {
        guard let connection else { return [] }
        var commands: [WorkerCommand] = []
        do throws(LinkClosing) {
            for message in try connection.receive() {
                guard case .command(let command) = message else {
                    throw .refused(.badValue("message out of place"))
                }
                if command == .adopted {
                    keeper.adopt()
                    aloneSince = nil
                } else {
                    commands.append(command)
                }
            }
        } catch {
            lose(now: now)
        }
        return commands
    }

    private func send(_ message: LinkMessage, now: Instant) {
        guard let connection else { return }
        do throws(LinkClosing) {
            try connection.send(message)
        } catch {
            lose(now: now)
        }
    }

    private func lose(now: Instant) {
        connection = nil
        keeper.loseLink(now: now)
        if aloneSince == nil { aloneSince = now }
        nextTry = now + Self.retryInterval
    }
}
