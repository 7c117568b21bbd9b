import RelayCore

/// The query of `GET /v1/calls`.
enum CallParameters {
    static let limit = 1...500

    static func query(_ query: Query) throws(Problem) -> CallQuery {
        var result = CallQuery()
        result.uid = try query.identifier("uid")
        result.fromMs = try time("from", in: query)
        result.toMs = try time("to", in: query)
        if query["outcome"] == "missed" {
            guard result.uid != nil else { throw Query.refusal("outcome", "missed needs the uid who missed") }
            result.isMissed = true
        } else {
            let outcome: RoomOutcome? = try query.word("outcome")
            result.outcome = outcome?.rawValue
        }
        if let text = query["cursor"] {
            guard let cursor = CallQuery.Cursor(text) else {
                throw Problem(status: 400, code: "invalid-cursor", detail: "cursor is not one that a page gave")
            }
            result.after = cursor
        }
        result.limit = try query.integer("limit", limit) ?? 100
        return result
    }

    private static func time(_ name: String, in query: Query) throws(Problem) -> Int64? {
        guard let text = query[name] else { return nil }
        guard let ms = Timestamp.ms(of: text) else {
            throw Query.refusal(name, "must be a time as RFC 3339 writes it, such as 2026-01-31T08:00:00Z")
        }
        return ms
    }
}

extension JournalCall {
    init(_ record: CallRecord) {
        self.init(
            room: record.room.text, endedMs: record.endedAtMs, outcome: record.outcome.rawValue,
            json: JSONText.of(CallJSON.record(record)),
            users: record.users.compactMap { uid in
                record.view(of: uid).map { view in
                    User(uid: uid, view: JSONText.of(CallJSON.view(view)), isMissed: view.status == .missed)
                }
            })
    }
}

extension Timestamp {
    /// Milliseconds since the Unix epoch of an RFC 3339 date-time, years 1970…9999; nil for any other text. Finer
    /// fractions are cut off.
    package static func ms(of text: String) -> Int64? {
        var rest = Array(text.utf8)[...]
        func number(_ digits: Int, _ range: ClosedRange<Int64>) -> Int64? {
            guard rest.count >= digits else { return nil }
            var value: Int64 = 0
            for byte in rest.prefix(digits) {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 0x30)
            }
            rest = rest.dropFirst(digits)
            return range.contains(value) ? value : nil
        }
        func sign(_ allowed: String) -> UInt8? {
            guard let byte = rest.first, allowed.utf8.contains(byte) else { return nil }
            rest = rest.dropFirst()
            return byte
        }
        guard let year = number(4, 1970...9999), sign("-") != nil, let month = number(2, 1...12), sign("-") != nil,
            let day = number(2, 1...31), sign("Tt") != nil, let hour = number(2, 0...23), sign(":") != nil,
            let minute = number(2, 0...59), sign(":") != nil, let second = number(2, 0...60)
        else { return nil }
        guard day <= daysOf(month, year) else { return nil }
        var ms: Int64 = 0
        if sign(".") != nil {
            let digits = rest.prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return nil }
            rest = rest.dropFirst(digits.count)
            for position in 0..<3 {
                let digit = digits.count > position ? Int64(digits[digits.startIndex + position] - 0x30) : 0
                ms = ms * 10 + digit
            }
        }
        var offset: Int64 = 0
        guard let zone = sign("Zz+-") else { return nil }
        if zone == UInt8(ascii: "+") || zone == UInt8(ascii: "-") {
            guard let hours = number(2, 0...23), sign(":") != nil, let minutes = number(2, 0...59) else { return nil }
            offset = (hours * 60 + minutes) * (zone == UInt8(ascii: "-") ? -60 : 60)
        }
        guard rest.isEmpty else { return nil }
        let leapDays = { (year: Int64) in year / 4 - year / 100 + year / 400 }
        var days = (year - 1970) * 365 + leapDays(year - 1) - leapDays(1969)
        for earlier in 1..<month { days += daysOf(earlier, year) }
        days += day - 1
        return (((days * 24 + hour) * 60 + minute) * 60 + second - offset) * 1_000 + ms
    }

    private static func daysOf(_ month: Int64, _ year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
