import MediaRelay
import RTPCore

/// One event as a consumer reads it.
struct LoadEvent: Sendable {
    var seq: UInt64
    var roomSeq: UInt64
    var type: String
    var room: String?
    var uid: String?
    var device: String?
    var participant: String?
    var reason: String?
    var outcome: String?
    var receivedAt: Instant

    /// Tells whether two consumers read the same event.
    var fingerprint: Int { [type, room, uid, device, participant, reason, outcome, "\(seq) \(roomSeq)"].hashValue }

    init?(_ json: ArraySlice<UInt8>, receivedAt: Instant) {
        guard let seq = JSONScan.integer("seq", in: json), let roomSeq = JSONScan.integer("roomSeq", in: json),
            let type = JSONScan.string("type", in: json)
        else { return nil }
        self.seq = UInt64(seq)
        self.roomSeq = UInt64(roomSeq)
        self.type = type
        // `data` stands last and may hold members of the same names.
        let head = json[..<(Self.firstIndex(of: Array("\"data\":".utf8), in: json) ?? json.endIndex)]
        room = JSONScan.string("roomId", in: head)
        uid = JSONScan.string("uid", in: head)
        device = JSONScan.string("device", in: head)
        participant = JSONScan.string("participantId", in: head)
        reason = JSONScan.string("reason", in: head)
        outcome =
            type == "call.ended" || type == "room.closed"
            ? JSONScan.string("outcome", in: json[head.endIndex...]) : nil
        self.receivedAt = receivedAt
    }

    private static func firstIndex(of pattern: [UInt8], in bytes: ArraySlice<UInt8>) -> Int? {
        guard bytes.count >= pattern.count else { return nil }
        for start in bytes.startIndex...(bytes.endIndex - pattern.count) where bytes[start] == pattern[0] {
            if bytes[start..<(start + pattern.count)].elementsEqual(pattern) { return start }
        }
        return nil
    }
}

/// Reads Server-Sent Events out of a body that comes in pieces.
struct EventStreamParser {
    private var pending: [UInt8] = []

    mutating func take(_ bytes: [UInt8], now: Instant, _ body: (LoadEvent) -> Void) {
        pending += bytes
        var start = 0
        var line = 0
        while let end = pending[line...].firstIndex(of: 0x0A) {
            defer { line = end + 1 }
            guard end == line else {
                if pending[line..<end].starts(with: "data: ".utf8),
                    let event = LoadEvent(pending[(line + 6)..<end], receivedAt: now)
                {
                    body(event)
                }
                continue
            }
            start = end + 1
        }
        // Lines that were taken must not be taken again: the rest begins at the line that is not whole yet.
        start = max(start, line)
        pending.removeFirst(start)
    }
}

/// A consumer of an event stream that resumes by `seq` after every loss of its connection.
final class EventFollower: @unchecked Sendable {
    // @unchecked: confined to the loop's thread.
    private let client: HTTPClient
    private let path: String
    private let token: String
    private let onEvent: (LoadEvent) -> Void
    private let keepsFingerprints: Bool
    private var connection: HTTPConnection?
    private(set) var lastSeq: UInt64?
    private(set) var connectCount = 0
    private(set) var hasEnded = false
    /// What was read; for comparing logs.
    private(set) var fingerprints: [Int] = []
    private var isStopped = false

    /// `after`: the cursor to begin with; nil: what the path begins with by itself.
    init(
        _ client: HTTPClient, path: String, token: String, after: UInt64?, keepsFingerprints: Bool = false,
        onEvent: @escaping (LoadEvent) -> Void
    ) {
        self.keepsFingerprints = keepsFingerprints
        self.client = client
        self.path = path
        self.token = token
        lastSeq = after
        self.onEvent = onEvent
    }

    /// Opens the stream. Throws when the relay answers with anything but a stream.
    func open() async throws {
        connectCount += 1
        let connection = try HTTPConnection(client.loop, port: client.port)
        self.connection = connection
        var headers = ["Accept: text/event-stream"]
        if let lastSeq { headers.append("Last-Event-ID: \(lastSeq)") }
        var parser = EventStreamParser()
        let reply = try await connection.stream(HTTPClient.request("GET", path, token: token, headers: headers)) {
            [weak self] bytes, now in
            guard let self else { return }
            guard let bytes else {
                hasEnded = true
                return
            }
            parser.take(bytes, now: now) { event in
                self.lastSeq = event.seq
                if self.keepsFingerprints { self.fingerprints.append(event.fingerprint) }
                self.onEvent(event)
            }
        }
        guard reply.status == 200 else {
            connection.close()
            throw LoadFailure("\(path) answered \(reply.status): \(reply.text.prefix(200))")
        }
    }

    /// Follows for ever: opens the stream again whenever it has ended, until `stop`.
    func follow() async {
        while !isStopped {
            if connection?.isOpen != true { try? await open() }
            await client.loop.sleep(for: .milliseconds(5))
        }
    }

    func stop() {
        isStopped = true
        connection?.close()
    }
}
