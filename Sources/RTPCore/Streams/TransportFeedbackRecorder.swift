// The receiving half of transport-wide congestion control: which packets of one transport came, and when.
// Owns a window of arrivals; refuses to estimate anything: that is the sender's part. The packets are built
// in `+Packets`.

/// Records the arrivals of transport-wide numbers and builds the feedback for their sender
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01).
///
/// Every packet that came is reported once, and so is every gap before the newest one. A packet that comes
/// after its gap was reported is told in the next feedback, in a packet of its own. The window holds 512
/// numbers: what falls out of it unreported is counted in `evictedCount`, so feedback has to be asked for
/// before (`needsFeedback`) or often enough.
///
/// Owns C memory: made by `create`, freed once by `destroy`. Copies share that memory. Allocates nothing in
/// between.
@frozen @safe public struct TransportFeedbackRecorder {
    /// How many numbers the window holds; a power of two.
    public static let windowCount: Int64 = 512
    /// The most bytes of one feedback packet: it passes every path, with the bytes of SRTCP and UDP around
    /// it.
    public static let byteLimit = 1_100
    /// The least room that `appendFeedback` writes into.
    public static let leastByteCount = 64
    /// Of deltas: 250 µs.
    static let nanosecondsPerTick: Int64 = 250_000

    /// In the place of an arrival: not received.
    static let missing = Int64.min
    /// In the place of an arrival: received and reported.
    static let reported = Int64.min + 1

    /// By number modulo `windowCount`: the lowest 30 bits of the arrival's ticks, above them what became of the packet:
    /// 0 missing, 1 reported, else it waits, and 2 or 3 is the status symbol 1 or 2 in the packet being built.
    @usableFromInline let words: UnsafeMutablePointer<UInt32>
    static let tickMask: UInt32 = (1 << 30) - 1
    /// Ticks of the arrival recorded last: those in the window are less than 37 hours away from it.
    var reference: Int64 = 0
    /// The newest number, extended.
    @usableFromInline var highest: Int64 = 0
    /// The first number that no feedback covered yet.
    var next: Int64 = 0
    var isStarted = false
    /// Packets before `next` that wait to be reported.
    var lateCount = 0
    /// Counts feedback packets modulo 256.
    var feedbackCount: UInt8 = 0
    /// Packets that wait to be reported.
    public internal(set) var pendingCount = 0
    /// Packets that left the window before they were reported.
    public private(set) var evictedCount: UInt64 = 0
    /// Packets not recorded: duplicates, and too old for the window.
    public private(set) var ignoredCount: UInt64 = 0

    private init(words: UnsafeMutablePointer<UInt32>) {
        unsafe self.words = words
    }

    /// Makes a recorder with its memory (2 KiB).
    public static func create() -> TransportFeedbackRecorder {
        let words = UnsafeMutablePointer<UInt32>.allocate(capacity: Int(windowCount))
        unsafe words.initialize(repeating: 0, count: Int(windowCount))
        return unsafe TransportFeedbackRecorder(words: words)
    }

    /// Frees the memory; neither this value nor a copy of it may be used afterwards.
    public func destroy() {
        // Safe: allocated by `create`, and the caller's contract is to call this once.
        unsafe words.deallocate()
    }

    /// Where the next packet's arrival will be noted: a hint for caches, nothing to read.
    @inlinable public var nextPlace: UnsafeRawPointer {
        unsafe UnsafeRawPointer(words + Int((highest &+ 1) & (Self.windowCount - 1)))
    }

    /// Half of the window waits for feedback: ask for it now.
    public var needsFeedback: Bool { pendingCount > 0 && highest - next >= Self.windowCount / 2 }

    /// A packet with this transport-wide number arrived. `arrival`: not before instant 0.
    public mutating func record(_ number: UInt16, arrival: Instant) {
        let ticks = max(0, arrival.nanoseconds) / Self.nanosecondsPerTick
        if !isStarted {
            isStarted = true
            highest = Int64(number)
            next = highest
        }
        let sequence = SequenceNumber.extend(number, near: highest)
        if sequence > highest {
            advance(to: sequence)
        }
        guard sequence > highest - Self.windowCount, entry(of: sequence) == Self.missing else {
            ignoredCount &+= 1
            return
        }
        reference = ticks
        setEntry(of: sequence, ticks)
        pendingCount += 1
        if sequence < next { lateCount += 1 }
    }

    /// Makes room for the numbers up to `sequence`, which is newer than `highest`.
    private mutating func advance(to sequence: Int64) {
        // A step over the whole window clears each place once.
        for entering in highest + 1...min(sequence, highest + Self.windowCount) {
            let leaving = entering - Self.windowCount
            if entry(of: leaving) >= 0 {
                evictedCount &+= 1
                pendingCount -= 1
                if leaving < next {
                    lateCount -= 1
                } else {
                    // It came, so the gap that begins at `next` must not be told over it.
                    next = leaving + 1
                }
            }
            setEntry(of: entering, Self.missing)
        }
        highest = sequence
    }

    /// The oldest number whose arrival is known.
    var windowStart: Int64 { highest - Self.windowCount + 1 }

    /// Ticks or a mark, for numbers in the window (and the one about to leave it).
    func entry(of sequence: Int64) -> Int64 {
        // Safe: the mask keeps the index inside the window.
        let word = unsafe words[Int(sequence & (Self.windowCount - 1))]
        switch word >> 30 {
        case 0: return Self.missing
        case 1: return Self.reported
        default:
            let distance = Int32(bitPattern: (UInt32(truncatingIfNeeded: reference) &- word) << 2) >> 2
            return reference - Int64(distance)
        }
    }
    func setEntry(of sequence: Int64, _ value: Int64) {
        let word: UInt32 =
            switch value {
            case Self.missing: 0
            case Self.reported: 1 << 30
            default: 2 << 30 | UInt32(truncatingIfNeeded: value) & Self.tickMask
            }
        // Safe: as above.
        unsafe words[Int(sequence & (Self.windowCount - 1))] = word
    }
}
