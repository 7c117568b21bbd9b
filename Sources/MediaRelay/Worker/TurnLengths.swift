import RTPCore

/// How long the media loop's turns took, waiting left out: whatever comes meanwhile waits for that long. Counts only.
package struct TurnLengths {
    /// Upper bounds of the classes, µs; one more class is above the last.
    package static let bounds: [Int64] = [50, 100, 250, 500, 1_000, 5_000]
    package private(set) var counts = [UInt64](repeating: 0, count: bounds.count + 1)

    package init() {}

    package mutating func note(_ length: Interval) {
        let microseconds = length.microseconds
        var place = 0
        while place < Self.bounds.count, microseconds > Self.bounds[place] { place += 1 }
        counts[place] &+= 1
    }

    /// Of the classes: `to-50us` … `over-5000us`.
    package static let names = bounds.map { "to-\($0)us" } + ["over-\(bounds[bounds.count - 1])us"]
}
