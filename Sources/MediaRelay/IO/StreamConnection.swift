import CLinuxIO
import Glibc
import RTPCore
import RelayCore

/// One TCP connection of a client: its descriptor, the frame that is coming in, and what could not leave. Owns the
/// descriptor and its memory, all of it from the start. Knows no session: who may speak over it is for the engine to say,
/// and how long it may be idle for `MediaStreams`.
final class StreamConnection {
    /// Frames that leave in one call.
    static let frameCount = 16

    let descriptor: Int32
    let peer: PeerAddress
    /// An authenticated check has come over it, and the session whose it was is still there.
    var isProven = false
    /// It was proven once.
    var hasSpokenForSession = false
    /// When it is closed unless it is proven by then.
    var provenBy: Instant
    /// When the frame at hand has to be complete; `distantFuture` between frames.
    private(set) var frameDeadline = Instant.distantFuture
    /// The poller is asked to tell when there is room.
    var waitsForRoom = false

    private var framer = StreamFramer(limit: DatagramReader.maximumByteCount)
    private let frame: UnsafeMutablePointer<UInt8>
    private var backlog = FrameBacklog()

    init(descriptor: Int32, peer: PeerAddress, provenBy: Instant) {
        self.descriptor = descriptor
        self.peer = peer
        self.provenBy = provenBy
        frame = UnsafeMutableRawPointer.allocate(byteCount: DatagramReader.slotByteCount, alignment: 64)
            .assumingMemoryBound(to: UInt8.self)
    }

    deinit {
        Syscall.close(descriptor)
        frame.deallocate()
        backlog.deallocate()
    }

    var hasBacklog: Bool { !backlog.isEmpty }

    /// Gives each frame that `bytes` complete to `body`, writable until it returns. `body` says whether to go on.
    func read(
        _ bytes: UnsafeBufferPointer<UInt8>, now: Instant, patience: Interval,
        _ body: (UnsafeMutablePointer<UInt8>, Int) -> Bool
    ) throws(StreamFramer.Refusal) {
        guard let base = bytes.baseAddress else { return }
        let wasInside = framer.isInsideFrame
        var at = 0
        while let piece = try framer.next(in: bytes.span, from: at) {
            (frame + piece.offset).update(from: base + piece.range.lowerBound, count: piece.range.count)
            at = piece.range.upperBound
            guard piece.isLast else { break }
            frameDeadline = .distantFuture
            guard body(frame, piece.frameByteCount) else { return }
        }
        if !framer.isInsideFrame {
            frameDeadline = .distantFuture
        } else if !wasInside || frameDeadline == .distantFuture {
            frameDeadline = now + patience
        }
    }

    /// Sends entries `range` of `batch`, all of them to this peer: what the kernel does not take is kept or dropped, frame by
    /// frame, and counted.
    func send(
        _ batch: TransmitBatch, _ range: Range<Int>, buffers: UnsafeMutablePointer<lio_buffer>,
        lengths: UnsafeMutablePointer<UInt8>, errors: SendErrorCounters
    ) -> (frames: Int, bytes: Int) {
        var left = 0
        if backlog.isEmpty {
            for (position, index) in range.enumerated() {
                let byteCount = batch.entries[index].byteCount
                lengths[2 * position] = UInt8(byteCount >> 8)
                lengths[2 * position + 1] = UInt8(byteCount & 0xFF)
                buffers[2 * position] = lio_buffer(base: lengths + 2 * position, byte_count: 2)
                buffers[2 * position + 1] = lio_buffer(
                    base: batch.slots + index * TransmitBatch.slotByteCount, byte_count: Int(byteCount))
            }
            let result = Syscall.retrying {
                lio_stream_send_buffers(descriptor, buffers, Int32(2 * range.count))
            }
            guard result >= 0 || result == -Int64(EAGAIN) else {
                // Reading will show that it is gone.
                Syscall.trapOnBug(Int32(-result), "sendmsg TCP")
                errors.count(.streamClosed, times: range.count)
                return (0, 0)
            }
            left = max(0, Int(result))
        }
        var (frames, bytes) = (0, 0)
        for index in range {
            let byteCount = Int(batch.entries[index].byteCount)
            let slot = UnsafePointer(batch.slots + index * TransmitBatch.slotByteCount)
            if left >= byteCount + 2 {
                left -= byteCount + 2
            } else if left > 0 {
                backlog.keepRest(of: slot, byteCount: byteCount, sent: left)
                left = 0
            } else if !backlog.queue(slot, byteCount: byteCount) {
                errors.count(.streamFull)
                continue
            }
            frames += 1
            bytes += byteCount
        }
        return (frames, bytes)
    }

    /// Sends what could not leave before, as far as it goes.
    func flush() {
        while !backlog.isEmpty {
            let pending = backlog.pending
            let result = Syscall.retrying { lio_stream_send(descriptor, pending.baseAddress, pending.count) }
            guard result > 0 else {
                if result < 0 { Syscall.trapOnBug(Int32(-result), "send TCP") }
                return
            }
            backlog.remove(Int(result))
        }
    }
}
