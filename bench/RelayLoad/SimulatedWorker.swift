import CLinuxIO
import Glibc
import MediaRelay
import RTPCore
import RelayCore

/// A worker without media: it speaks the link as a real one does, and every transport that it is told to make is prepared at
/// once and joined when it is asked to. So conductor, journal and HTTP can be loaded beyond what DTLS would allow.
enum SimulatedWorker {
    static func run(arguments: [String]) -> Int32 {
        guard let options = try? WorkerOptions(arguments: arguments), let poller = try? Poller() else { return 2 }
        signal(SIGPIPE, SIG_IGN)
        let link = LinkClient(path: options.linkPath, poller: poller, token: 1, now: MonotonicClock.now())
        var worker = Worker(index: options.index)
        // A worker that says nothing for long counts as hanging.
        var nextSign = MonotonicClock.now()
        while !worker.isShutDown, !link.hasBeenGivenUp(now: MonotonicClock.now()) {
            let count = poller.wait(until: min(link.deadline, nextSign), now: MonotonicClock.now())
            let now = MonotonicClock.now()
            for index in 0..<count {
                for command in link.receive(poller.event(at: index), now: now) {
                    let news = worker.carryOut(command, now: now)
                    if !news.isEmpty { link.tell(news, now: now) }
                }
            }
            link.advance(to: now) { worker.hello(with: $0) }
            guard nextSign <= now else { continue }
            nextSign = now + .seconds(2)
            link.tell([WorkerCounter("transports", UInt64(worker.transports.count))], now: now)
        }
        return 0
    }

    private struct Transport {
        var configuration: TransportConfiguration
        var isJoined: Bool
        var since: Instant
    }

    private struct Worker {
        let id: WorkerID
        var transports: [ParticipantHandle: Transport] = [:]
        var isShutDown = false

        init(index: Int) {
            var random = SystemRandomNumberGenerator()
            id = WorkerID(index: index, epoch: random.next())
        }

        func hello(with news: [WorkerNews]) -> WorkerHello {
            WorkerHello(
                worker: id, processID: getpid(),
                endpoint: WorkerEndpoint(
                    candidates: [.init(address: "127.0.0.1", port: 9)], fingerprint: [UInt8](repeating: 0xAB, count: 32)
                ),
                transports: transports.values.map {
                    TransportSnapshot(
                        participant: $0.configuration.participant, room: $0.configuration.room,
                        phase: $0.isJoined ? .joined : .prepared, isInterrupted: false, since: $0.since)
                }, news: news)
        }

        mutating func carryOut(_ command: WorkerCommand, now: Instant) -> [WorkerNews] {
            switch command {
            case .create(let configuration):
                let handle = configuration.participant
                guard transports[handle] == nil else { return [] }
                transports[handle] = Transport(
                    configuration: configuration, isJoined: configuration.joinsWhenReady, since: now)
                return [.prepared(handle, at: now)] + (configuration.joinsWhenReady ? opened(handle, now: now) : [])
            case .join(let handle):
                guard transports[handle]?.isJoined == false else { return [] }
                transports[handle]?.isJoined = true
                transports[handle]?.since = now
                return opened(handle, now: now)
            case .remove(let handle):
                transports[handle] = nil
                return []
            case .shutDown:
                isShutDown = true
                return []
            default: return []
            }
        }

        private func opened(_ handle: ParticipantHandle, now: Instant) -> [WorkerNews] {
            [.joined(handle, at: now), .media(handle, .audio, at: now)]
        }
    }
}
