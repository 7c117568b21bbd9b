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
        /// The data model's names and numbers.
        var severity: (text: String, number: Int64) {
            switch self {
            case .debug: ("DEBUG", 5)
            case .info: ("INFO", 9)
            case .warning: ("WARN", 13)
            case .error: ("ERROR", 17)
            }
        }
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

    /// Whether entries of this level are written: what is costly to say need not be made.
    package func takes(_ level: Level) -> Bool { level.rawValue >= lowest.load(ordering: .relaxed) }

    package func write(_ level: Level, _ message: String, _ fields: JSONValue.Field...) {
        write(level, message, fields)
    }

    package func write(_ level: Level, _ message: String, _ fields: [JSONValue.Field]) {
        guard takes(level) else { return }
        let time = Timestamp.text(ofMs: WallClock.nowMs)
        var line: [UInt8]
        switch format {
        case .json: line = JSONText.of(Self.record(level, message, fields, time: time))
        case .text:
            var text = "\(time) \(level.name) \(Self.printable(message))"
            for field in fields {
                text += " \(field.name)=" + String(decoding: JSONText.of(field.value), as: UTF8.self)
            }
            line = Array(text.utf8)
        }
        line.append(UInt8(ascii: "\n"))
        // A log that cannot be written must not stop the node.
        _ = Glibc.write(descriptor, line, line.count)
    }

    /// By OpenTelemetry's log data model: what a collector needs no rules of its own for.
    private static func record(
        _ level: Level, _ message: String, _ fields: [JSONValue.Field], time: String
    ) -> JSONValue {
        .object([
            .init("timestamp", .string(time)), .init("severity", .string(level.severity.text)),
            .init("severityNumber", .integer(level.severity.number)), .init("body", .string(message)),
            .init("attributes", .object(fields)),
            .init(
                "resource",
                .object([
                    .init("service.name", .string("media-relay")), .init("service.version", .string(Version.text)),
                ])),
        ])
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

extension Log {
    /// What happened to a room, with ids and no names of users: how rooms end and whose connection got worse, the rest for `debug`.
    func write(_ event: RelayEvent) {
        let level: Level =
            switch event.type {
            case .roomClosed, .participantQuality, .participantInterrupted: .info
            default: .debug
            }
        guard takes(level) else { return }
        var fields: [JSONValue.Field] = [.init("event.name", .string(event.type.rawValue))]
        if let room = event.roomID { fields.append(.init("room.id", .string(room.text))) }
        if let participant = event.participantID { fields.append(.init("participant.id", .string(participant.text))) }
        if let reason = event.reason { fields.append(.init("reason", .string(reason))) }
        let told: Set = ["outcome", "durationMs", "quality", "leg", "lossPercent", "jitterMs", "roundTripMs", "kind"]
        fields += event.data.filter { told.contains($0.name) }
        write(level, event.type.rawValue, fields)
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
