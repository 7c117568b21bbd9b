/// What really arrives: bytes that the receiver acknowledged, over the last 500 ms of its own clock, in
/// buckets of 50 ms.
struct AcknowledgedRate {
    private static let bucket = Interval.milliseconds(50)
    private static let bucketCount: Int64 = 10
    /// Below this time a rate says nothing.
    private static let least = Interval.milliseconds(150)

    private var buckets = InlineArray<10, Int>(repeating: 0)
    /// Number of the newest bucket.
    private var newest: Int64?
    private var first: Interval?
    private var last = Interval.zero

    mutating func add(byteCount: Int, arrivedAt: Interval) {
        let bucket = arrivedAt.nanoseconds / Self.bucket.nanoseconds
        guard let newest else {
            start(at: bucket, byteCount: byteCount, arrivedAt: arrivedAt)
            return
        }
        if bucket > newest {
            // After a silence longer than the window the past says nothing.
            guard bucket - newest < Self.bucketCount else {
                start(at: bucket, byteCount: byteCount, arrivedAt: arrivedAt)
                return
            }
            for empty in newest + 1...bucket { buckets[Self.place(empty)] = 0 }
            self.newest = bucket
        } else if newest - bucket >= Self.bucketCount {
            return
        }
        buckets[Self.place(bucket)] += byteCount
        last = max(last, arrivedAt)
    }

    /// Begins anew with the next packet.
    mutating func forget() {
        newest = nil
        first = nil
    }

    private mutating func start(at bucket: Int64, byteCount: Int, arrivedAt: Interval) {
        buckets = InlineArray(repeating: 0)
        buckets[Self.place(bucket)] = byteCount
        newest = bucket
        first = arrivedAt
        last = arrivedAt
    }

    /// Bits per second; nil while too little is known.
    var bitsPerSecond: Double? {
        guard let newest, let first else { return nil }
        let begin = max(first.nanoseconds, (newest - Self.bucketCount + 1) * Self.bucket.nanoseconds)
        let span = last.nanoseconds - begin
        guard span >= Self.least.nanoseconds else { return nil }
        var sum = 0
        for k in 0..<Int(Self.bucketCount) { sum += buckets[k] }
        return Double(sum) * 8e9 / Double(span)
    }

    private static func place(_ bucket: Int64) -> Int { Int(((bucket % bucketCount) + bucketCount) % bucketCount) }
}
