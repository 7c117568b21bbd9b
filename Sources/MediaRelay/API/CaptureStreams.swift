import RTPCore
import RelayCore

/// The captures that are being streamed to whoever asked: which answer each belongs to, and what waits for its reader. What waits is
/// bounded by the capture's own size. Any thread.
final class CaptureStreams: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    struct Stream {
        let request: UInt64
        let worker: WorkerID
        var waiting: [[UInt8]] = []
        var isReady = true
        var byteCount = 0
        var end: String?
    }

    /// What is to be done with a stream, outside of the lock.
    enum Step {
        case write(request: UInt64, [UInt8])
        case close(request: UInt64)
    }

    private let lock = Lock()
    private var streams: [CaptureID: Stream] = [:]
    /// A worker may be faster than the disk, which the answer waits for.
    private var early: [CapturePart] = []
    private static let earlyLimit = 64

    func isBusy(_ worker: WorkerID) -> Bool { lock.withLock { streams.values.contains { $0.worker == worker } } }

    /// The answer has begun.
    func open(_ id: CaptureID, _ stream: Stream) -> [Step] {
        let parts = lock.withLock {
            streams[id] = stream
            defer { early.removeAll { $0.id == id } }
            return early.filter { $0.id == id }
        }
        return parts.flatMap(take)
    }

    func take(_ part: CapturePart) -> [Step] {
        lock.withLock {
            guard streams[part.id] != nil else {
                early.append(part)
                if early.count > Self.earlyLimit { early.removeFirst() }
                return []
            }
            if !part.bytes.isEmpty { streams[part.id]?.waiting.append(part.bytes) }
            if let end = part.end { streams[part.id]?.end = end.name }
            return pump(part.id)
        }
    }

    /// Its reader has taken what was written.
    func drained(_ request: UInt64) -> [Step] {
        lock.withLock {
            guard let id = streams.first(where: { $0.value.request == request })?.key else { return [] }
            streams[id]?.isReady = true
            return pump(id)
        }
    }

    /// Its reader is gone; what it was.
    func remove(request: UInt64) -> (id: CaptureID, stream: Stream)? {
        lock.withLock {
            guard let id = streams.first(where: { $0.value.request == request })?.key,
                let stream = streams.removeValue(forKey: id)
            else { return nil }
            return (id, stream)
        }
    }

    func end(of worker: WorkerID) -> [Step] {
        lock.withLock {
            streams.filter { $0.value.worker == worker && $0.value.end == nil }.keys.flatMap { id in
                streams[id]?.end = "worker-gone"
                return pump(id)
            }
        }
    }

    private func pump(_ id: CaptureID) -> [Step] {
        guard let stream = streams[id], stream.isReady else { return [] }
        if let next = stream.waiting.first {
            streams[id]?.waiting.removeFirst()
            streams[id]?.isReady = false
            streams[id]?.byteCount += next.count
            return [.write(request: stream.request, next)]
        }
        guard stream.end != nil else { return [] }
        streams[id] = nil
        return [.close(request: stream.request)]
    }
}
