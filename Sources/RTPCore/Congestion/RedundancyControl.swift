/// Decides how many earlier packets of sound go along with each new one to a receiver, by the loss that it reports: none, one,
/// or two. Owns the loss of the last seconds; refuses to know what a path has room for.
///
/// One report covers few packets of sound (50 a second), so losses are added up over `window`, older ones fading. What has
/// begun goes on until the loss has been low for `rest`: on a path that loses now and then, coming and going would help nobody.
@frozen public struct RedundancyControl: Sendable {
    /// Loss from which on one earlier packet goes along, of 1.
    public static let onset = 0.025
    /// Loss from which on two do, and below which one is enough again.
    public static let heavy = 0.08
    public static let lighter = 0.05
    /// Loss below which, for `rest`, none does any more.
    public static let end = 0.01
    public static let rest = Interval.seconds(5)
    public static let window = Interval.seconds(8)
    /// Packets that reports have to cover before the first one counts for anything.
    public static let leastExpected = 40.0

    /// 0, 1 or 2.
    public private(set) var depth: UInt8 = 0
    private var lost = 0.0
    private var expected = 0.0
    private var lastReport = Instant(nanoseconds: 0)
    /// Since when the loss is below `end`; `distantFuture` while it is not.
    private var calmSince = Instant.distantFuture

    public init() {}

    /// Of the last seconds, 0…1.
    public var loss: Double { expected > 0 ? lost / expected : 0 }

    /// One report of the receiver.
    /// - Parameters:
    ///   - lost: packets lost on its leg since the report before; negative counts as 0.
    ///   - expected: packets that it covers; a report that covers none says nothing.
    public mutating func report(lost newlyLost: Int64, of covered: Int64, at now: Instant) {
        guard covered > 0 else { return }
        let age = now - lastReport
        let kept = max(0, 1 - Double(max(0, age.nanoseconds)) / Double(Self.window.nanoseconds))
        lost = lost * kept + Double(min(max(0, newlyLost), covered))
        expected = expected * kept + Double(covered)
        lastReport = now
        guard expected >= Self.leastExpected else { return }
        decide(now)
    }

    private mutating func decide(_ now: Instant) {
        if loss >= Self.end {
            calmSince = .distantFuture
        } else if calmSince == .distantFuture {
            calmSince = now
        }
        switch depth {
        case 0: depth = loss >= Self.heavy ? 2 : loss >= Self.onset ? 1 : 0
        case 1 where loss >= Self.heavy: depth = 2
        case 2 where loss < Self.lighter: depth = 1
        default: break
        }
        if depth > 0, calmSince < .distantFuture, now - calmSince >= Self.rest { depth = 0 }
    }
}
