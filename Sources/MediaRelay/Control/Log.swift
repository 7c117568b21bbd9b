import Glibc
import RelayCore
import Synchronization

/// The control process's log: one line an entry on standard error, as text or JSON. It is never given a secret: no token, key,
/// password, SDP or full client address. Control characters are escaped. Any thread.
package final class Log: Sendable {
    package enum Level: Int, Comparable, Sendable, CaseIterable {
        case debug, info, warning, error
        package static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
        package var name: String { String(describing: self) }
    }
    package enum Format: String, Sendable { case text, json }

    private let lowest: Atomic<Int>
    private let format: Format
    private let descriptor: Int32

    package init(level: Level, format: Format, descriptor: Int32 = 2) {
        lowest = Atomic(level.rawValue)
        self.format = format
        self.descriptor = descriptor
    }

    /// Entries below it are not written from now on.
    package func use(level: Level) { lowest.store(level.rawValue, ordering: .relaxed) }

    package func write(_ level: Level, _ message: String, _ fields: JSONValue.Field...) {
        guard level.rawValue >= lowest.load(ordering: .relaxed) else { return }
        var line: [UInt8]
        switch format {
        case .json:
            line = JSONText.of(
                .object(
                    [
                        .init("time", .string(Timestamp.text(ofMs: WallClock.nowMs))),
                        .init("level", .string(level.name)), .init("message", .string(message)),
                    ] + fields))
        case .text:
            var text = "\(Timestamp.text(ofMs: WallClock.nowMs)) \(level.name) \(Self.printable(message))"
            for field in fields {
                text += " \(field.name)=" + String(decoding: JSONText.of(field.value), as: UTF8.self)
            }
            line = Array(text.utf8)
        }
        line.append(UInt8(ascii: "\n"))
        // A log that cannot be written must not stop the node.
        _ = Glibc.write(descriptor, line, line.count)
    }

    private static func printable(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let isControl = scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
            let isSeparator = scalar.value == 0x2028 || scalar.value == 0x2029
            result.append(isControl || isSeparator ? " " : scalar)
        }
        return String(result)
    }
}

/// RFC 3339 with milliseconds, UTC: the form of every time in the API.
package enum Timestamp {
    package static func text(ofMs ms: Int64) -> String {
        var seconds = time_t(ms / 1_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func digits(_ number: Int32, _ width: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return digits(parts.tm_year + 1_900, 4) + "-" + digits(parts.tm_mon + 1, 2) + "-" + digits(parts.tm_mday, 2)
            + "T" + digits(parts.tm_hour, 2) + ":" + digits(parts.tm_min, 2) + ":" + digits(parts.tm_sec, 2) + "."
            + digits(Int32(ms % 1_000), 3) + "Z"
    }
}
