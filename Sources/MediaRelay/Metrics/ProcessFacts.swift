import CLinuxIO
import Glibc
import RTPCore

/// What the kernel says of this process, under the names that Prometheus' client libraries use. Reads /proc; what cannot be read is
/// left out.
package struct ProcessFacts: Sendable {
    package var cpu = Interval.zero
    package var residentBytes: UInt64?
    package var openDescriptors: Int?
    package var descriptorLimit: UInt64?
    /// Seconds since the Unix epoch.
    package var startSeconds: Double?

    package static func now() -> ProcessFacts {
        var facts = ProcessFacts()
        facts.cpu = processorTime()
        facts.residentBytes = residentMemory()
        facts.openDescriptors = descriptors()
        facts.descriptorLimit = UInt64(exactly: lio_open_file_limit())
        facts.startSeconds = start
        return facts
    }

    /// User and system time of every thread.
    package static func processorTime() -> Interval { .nanoseconds(lio_process_cpu_ns()) }

    package static func residentMemory() -> UInt64? {
        let fields = contents("/proc/self/statm").split(separator: " ")
        guard fields.count > 1, let pages = UInt64(fields[1]) else { return nil }
        return pages * UInt64(sysconf(Int32(_SC_PAGESIZE)))
    }

    private static func descriptors() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // Itself, its parent, and the descriptor that reads it.
        return max(0, count - 3)
    }

    /// Field 22 of stat, in ticks since the boot, which has its second in /proc/stat.
    private static let start: Double? = {
        let stat = contents("/proc/self/stat")
        guard let end = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        let boot = contents("/proc/stat").split(separator: "\n").first { $0.hasPrefix("btime ") }
        guard fields.count > 19, let ticks = Double(fields[19]), let boot, let second = Double(boot.dropFirst(6)) else {
            return nil
        }
        return second + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
    }()

    private static func contents(_ path: String) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < 1 << 20 {
            let count = read(descriptor, &part, part.count)
            guard count > 0 else { break }
            bytes += part[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    func write(to text: inout MetricsText) {
        text.add(
            foreign: "process_cpu_seconds_total", .counter, "Processor time of control.",
            Double(cpu.nanoseconds) / 1_000_000_000)
        if let residentBytes {
            text.add(
                foreign: "process_resident_memory_bytes", .gauge, "Memory that control uses.", Double(residentBytes))
        }
        if let openDescriptors {
            text.add(foreign: "process_open_fds", .gauge, "Open files of control.", Double(openDescriptors))
        }
        if let descriptorLimit {
            text.add(
                foreign: "process_max_fds", .gauge, "How many files control may have open.", Double(descriptorLimit))
        }
        if let startSeconds {
            text.add(
                foreign: "process_start_time_seconds", .gauge, "When control started, since the Unix epoch.",
                startSeconds)
        }
    }
}
