/// The Date field's text (IMF-fixdate of RFC 9110 section 5.6.7) from seconds since 1970.
package enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// - Precondition: `seconds` is not negative.
    package static func text(secondsSince1970 seconds: Int) -> String {
        precondition(seconds >= 0, "no dates before 1970")
        let day = seconds / 86_400
        let second = seconds % 86_400
        var year = 1970
        var rest = day
        while rest >= length(ofYear: year) {
            rest -= length(ofYear: year)
            year += 1
        }
        var month = 0
        while rest >= length(ofMonth: month, year) {
            rest -= length(ofMonth: month, year)
            month += 1
        }
        let time = [second / 3600, second / 60 % 60, second % 60].map(padded).joined(separator: ":")
        return "\(days[day % 7]), \(padded(rest + 1)) \(months[month]) \(year) \(time) GMT"
    }

    private static func length(ofYear year: Int) -> Int { isLeap(year) ? 366 : 365 }

    private static func length(ofMonth month: Int, _ year: Int) -> Int {
        switch month {
        case 1: isLeap(year) ? 29 : 28
        case 3, 5, 8, 10: 30
        default: 31
        }
    }

    private static func isLeap(_ year: Int) -> Bool {
        year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
    }

    private static func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
