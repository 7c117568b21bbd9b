import Glibc
import RTPCore
import RelayCore

/// What lies between the media loop and the recorder's thread: packets, bounded in bytes, and orders. The media loop copies under a lock that the
/// other side holds only to swap two pointers, so a slow disk makes it drop and count, never wait.
final class RecorderQueue: @unchecked Sendable {
    // @unchecked: everything mutable is touched under `lock` only.
    /// Seconds of many rooms, minutes of one.
    static let byteCapacity = 32 << 20

    /// What was waiting. Its memory goes back and forth.
    struct Load {
        fileprivate var block: UnsafeMutablePointer<UInt8>?
        fileprivate(set) var byteCount = 0
        var orders: [(order: RecordingOrder, at: Instant)] = []
        var names: [(RecordingHandle, RecordedParticipant)] = []
        var stops: [RecordingHandle] = []
        var dropped: [RecordingHandle: UInt64] = [:]
        var isStopping = false

        var bytes: UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(start: block.map { UnsafeRawPointer($0) }, count: byteCount)
        }
    }

    private let lock = Lock()
    private var waiting = Load()
    let wakeUp: WakeUp

    init() throws(SystemError) { wakeUp = try WakeUp() }

    deinit { waiting.block?.deallocate() }

    // MARK: The media loop's side

    /// Takes everything out of `batch`.
    func post(_ batch: RecordedBatch) {
        lock.withLock {
            for (recording, count) in batch.dropped { waiting.dropped[recording, default: 0] += count }
            guard waiting.byteCount + batch.byteCount <= Self.byteCapacity else {
                RecordedBatch.forEach(in: batch.bytes) { entry, _ in waiting.dropped[entry.recording, default: 0] += 1 }
                return
            }
            guard let source = batch.bytes.baseAddress, batch.byteCount > 0 else { return }
            let block = waiting.block ?? .allocate(capacity: Self.byteCapacity)
            waiting.block = block
            (block + waiting.byteCount).update(
                from: source.assumingMemoryBound(to: UInt8.self), count: batch.byteCount)
            waiting.byteCount += batch.byteCount
        }
        batch.removeAll()
        wakeUp.signal()
    }

    func change(_ body: (inout Load) -> Void) {
        lock.withLock { body(&waiting) }
        wakeUp.signal()
    }

    // MARK: The recorder's side

    /// Swaps what waits for an empty load; `load` is what was taken before.
    func take(into load: inout Load) {
        var fresh = Load()
        fresh.block = load.block
        load = Load()
        lock.withLock { swap(&fresh, &waiting) }
        load = fresh
    }

    /// Gives the memory of the last load back.
    func close(_ load: inout Load) {
        load.block?.deallocate()
        load = Load()
    }
}
