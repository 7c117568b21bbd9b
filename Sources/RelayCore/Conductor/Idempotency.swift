import RTPCore

// A request that says by a key of its own that it may come twice: what the conductor remembers of it.

/// An `Idempotency-Key` as a request brings it.
public struct IdempotencyKey: Hashable, Sendable {
    /// The field's value; 1…255 bytes, others are answered with 400.
    public var text: String
    /// Tells the request from every other one: a cryptographic digest of method, target, conditions and body, in hex.
    public var digest: String
    public init(text: String, digest: String) {
        self.text = text
        self.digest = digest
    }
}

/// An answer word by word, so that it can be given again. Fields that every answer has are left out.
public struct StoredAnswer: Hashable, Sendable, Codable {
    public struct Field: Hashable, Sendable, Codable {
        public var name: String
        public var value: String
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }
    public var status: Int
    public var fields: [Field]
    public var body: String
    public init(status: Int, fields: [Field] = [], body: String = "") {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// One `Idempotency-Key` and what it was answered, kept in the journal for 24 h.
public struct IdempotencyRecord: Hashable, Sendable, Codable {
    /// Whose key it is: a server key's id, or `:ROOM:UID` of participants, which no key's id can be.
    public let keyID: String
    public let key: String
    public let createdAtMs: Int64
    public internal(set) var digest: String?
    public internal(set) var answer: StoredAnswer?
    // Instead of the two above in records from when only creations had keys: the body, and the room that was made.
    let request: RoomSpecification?
    let roomID: RoomID?
    let seq: UInt64?

    init(keyID: String, key: String, createdAtMs: Int64, digest: String, answer: StoredAnswer) {
        self.keyID = keyID
        self.key = key
        self.createdAtMs = createdAtMs
        self.digest = digest
        self.answer = answer
        request = nil
        roomID = nil
        seq = nil
    }

    /// What it costs to remember, in bytes, roughly.
    var byteCount: Int {
        let answerByteCount = answer.map { answer in
            answer.fields.reduce(answer.body.utf8.count) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        }
        return 300 + keyID.utf8.count + key.utf8.count + (answerByteCount ?? 0)
    }

    /// Of a creation from before there were digests, as it was answered.
    var creation: ControlReply? {
        guard let request, let roomID, let seq else { return nil }
        return .created(
            RoomView(id: roomID, specification: request, status: .initiated, createdAtMs: createdAtMs, seq: seq),
            isNew: true)
    }

    func isOf(_ request: ControlRequest, _ key: IdempotencyKey) -> Bool {
        if let digest { return digest == key.digest }
        if case .createRoom(let specification) = request { return specification == self.request }
        return false
    }
}

/// The name of a key that is forgotten.
public struct IdempotencyName: Hashable, Sendable {
    public let keyID: String
    public let key: String
}

extension Principal {
    /// Whose idempotency keys are one's own: a server key's, or a user's in a room.
    var idempotencyScope: String {
        switch self {
        case .server(let keyID): keyID
        case .participant(let identity): ":\(identity.room.text):\(identity.uid)"
        }
    }
}

extension Conductor {
    /// A request that may come twice. What it was answered is stored with what it decided, and given again to the same
    /// request with the same key; answers that ask to try again are not.
    func reply(
        to request: ControlRequest, from principal: Principal, once key: IdempotencyKey
    ) -> ControlReply {
        let limit = ConductorConfiguration.idempotencyKeyByteLimit
        guard (1...limit).contains(key.text.utf8.count) else {
            return .problem(
                Problem(
                    status: 400, code: "invalid-idempotency-key",
                    detail: "an Idempotency-Key has 1…\(limit) bytes, this one \(key.text.utf8.count)"))
        }
        let scope = principal.idempotencyScope
        if let record = idempotency.record(keyID: scope, key: key.text) {
            guard record.isOf(request, key), let answer = record.answer else {
                return .problem(
                    Problem(
                        status: 422, code: "idempotency-key-reused",
                        detail: "this Idempotency-Key was used with another request"))
            }
            return .repeated(answer)
        }
        let reply = reply(to: request, from: principal)
        if case .problem(let problem) = reply, problem.status == 429 || problem.status >= 500 { return reply }
        let record = IdempotencyRecord(
            keyID: scope, key: key.text, createdAtMs: wallClockMs, digest: key.digest,
            answer: answerText(reply, request))
        idempotency.insert(record, configuration)
        turn.idempotency.append(record)
        rearmIdempotency()
        return reply
    }

    func forgetIdempotencyKeys() {
        idempotency.removeAll(createdUntilMs: wallClockMs - configuration.idempotencyLife.milliseconds)
        rearmIdempotency()
    }

    private func rearmIdempotency() {
        guard let oldest = idempotency.oldestCreatedAtMs else { return timers.cancel(.idempotency) }
        guard timers.deadline(of: .idempotency) == nil else { return }
        let leftMs = oldest + configuration.idempotencyLife.milliseconds - wallClockMs
        // The wall clock may be set while we wait: look again after an hour at the latest, in a second at the
        // earliest.
        timers.set(.idempotency, to: now + .milliseconds(min(max(leftMs, 1_000), 3_600_000)))
    }
}
