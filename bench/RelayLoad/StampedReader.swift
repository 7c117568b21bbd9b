import CLinuxIO
import Glibc
import MediaRelay
import RTPCore

/// Reads a stream socket together with the instant at which the kernel had the bytes, so that what this program was doing
/// then (it stands for hundreds of machines on one thread) is no part of a measured time.
enum StampedReader {
    // Linux: asm-generic/socket.h, linux/net_tstamp.h; Glibc's module does not have them.
    private static let timestamping: Int32 = 37
    private static let software: Int32 = 1 << 3 | 1 << 4
    private static let controlBytes = 256

    static func prepare(_ descriptor: Int32) {
        var flags = software
        setsockopt(descriptor, SOL_SOCKET, timestamping, &flags, socklen_t(MemoryLayout<Int32>.size))
    }

    /// As `recv`: bytes read, 0 at the end, -1 with `errno`. `arrivedAt`: the last of the bytes.
    static func receive(
        _ descriptor: Int32, into bytes: UnsafeMutableRawPointer, count: Int, arrivedAt: inout Instant
    ) -> Int {
        withUnsafeTemporaryAllocation(byteCount: controlBytes, alignment: 16) { control in
            var part = iovec(iov_base: bytes, iov_len: count)
            return withUnsafeMutablePointer(to: &part) { part in
                var message = msghdr()
                message.msg_iov = part
                message.msg_iovlen = 1
                message.msg_control = control.baseAddress
                message.msg_controllen = controlBytes
                let result = recvmsg(descriptor, &message, Int32(MSG_DONTWAIT))
                if result > 0, let age = age(in: control, count: Int(message.msg_controllen)) {
                    arrivedAt = MonotonicClock.now() - age
                }
                return result
            }
        }
    }

    /// How long ago the bytes came: the kernel's stamp is of the wall clock. A control message is its length (8 bytes),
    /// level and type (4 each), and here three `timespec`, the first of them the stamp by software.
    private static func age(in control: UnsafeMutableRawBufferPointer, count: Int) -> Interval? {
        guard count >= 32, control.load(fromByteOffset: 8, as: Int32.self) == SOL_SOCKET,
            control.load(fromByteOffset: 12, as: Int32.self) == timestamping
        else { return nil }
        let stamp = control.load(fromByteOffset: 16, as: timespec.self)
        guard stamp.tv_sec > 0 else { return nil }
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let age = Int64(wall.tv_sec - stamp.tv_sec) * 1_000_000_000 + Int64(wall.tv_nsec - stamp.tv_nsec)
        return .nanoseconds(max(0, age))
    }
}
