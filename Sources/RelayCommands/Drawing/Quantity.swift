import MediaRelay

/// Times and amounts as humans read them. Pure; times are UTC, as everywhere in the relay.
enum Quantity {
    /// `0.4 s`, `1 min 31 s`, `2 h 5 min`.
    static func duration(ofMs ms: Int64) -> String {
        let seconds = ms / 1_000
        if ms < 60_000 { return "\(decimal(Double(ms) / 1_000, digits: 1)) s" }
        if seconds < 3_600 { return "\(seconds / 60) min \(seconds % 60) s" }
        return "\(seconds / 3_600) h \(seconds % 3_600 / 60) min"
    }

    /// The same in whole seconds.
    static func age(ofMs ms: Int64) -> String { ms < 60_000 ? "\(ms / 1_000) s" : duration(ofMs: ms) }

    /// `+3.204` s behind the beginning.
    static func offset(ofMs ms: Int64) -> String { "+\(decimal(Double(ms) / 1_000, digits: 3))" }

    /// `2026-12-01 05:40:02` of `2026-12-01T05:40:02.123Z`; other texts as they are.
    static func time(_ text: String) -> String {
        guard let dot = text.firstIndex(of: "."), text.count == 24 else { return Terminal.printable(text) }
        return String(text[..<dot].replacing("T", with: " "))
    }

    /// `05:40:02.123` of the same.
    static func clock(_ text: String) -> String {
        guard text.count == 24, let t = text.firstIndex(of: "T") else { return Terminal.printable(text) }
        return String(text[text.index(after: t)...].dropLast())
    }

    static func bytes(_ count: Int64) -> String {
        switch count {
        case ..<1_000: "\(count) B"
        case ..<1_000_000: "\(decimal(Double(count) / 1_000, digits: 1)) kB"
        case ..<1_000_000_000: "\(decimal(Double(count) / 1_000_000, digits: 1)) MB"
        default: "\(decimal(Double(count) / 1_000_000_000, digits: 2)) GB"
        }
    }

    /// Thousands apart: `12,345`.
    static func count(_ number: Int64) -> String {
        var digits = String(number.magnitude)
        var at = digits.count - 3
        while at > 0 {
            digits.insert(",", at: digits.index(digits.startIndex, offsetBy: at))
            at -= 3
        }
        return (number < 0 ? "-" : "") + digits
    }

    static func decimal(_ number: Double, digits: Int) -> String {
        guard number.isFinite, abs(number) < 1e15 else { return "?" }
        let scale = (0..<digits).reduce(1.0) { value, _ in value * 10 }
        let whole = Int64((abs(number) * scale).rounded())
        let sign = number < 0 && whole != 0 ? "-" : ""
        guard digits > 0 else { return sign + String(whole) }
        let fraction = String(whole % Int64(scale))
        return sign + String(whole / Int64(scale)) + "." + String(repeating: "0", count: digits - fraction.count)
            + fraction
    }

    /// Milliseconds since 1970 of an RFC 3339 time.
    static func ms(of text: String?) -> Int64? { text.flatMap { Timestamp.ms(of: $0) } }
}
