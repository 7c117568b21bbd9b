/// Which rung of its ladder one slot is on, and when it may rise again. Owns the hysteresis; refuses to know bandwidth.
///
/// A slot falls at once. It rises no sooner than `shortestWait` after a fall, and each time a rise is followed by a fall within
/// `regretTime` the wait doubles up to `longestWait`, and halves after a rise that held: whatever the path does, a slot turns
/// from rising to falling at most `turnBound` times in a minute.
public struct LayerChoice: Sendable, Hashable {
    public static let shortestWait = Interval.seconds(2)
    public static let longestWait = Interval.seconds(32)
    public static let regretTime = Interval.seconds(10)
    /// Turns from rising to falling in any 60 s.
    public static let turnBound = 6

    public private(set) var rung = 0
    private var wait = Self.shortestWait
    private var raisedAt = Instant(nanoseconds: -1_000_000_000_000)
    private var heldUntil = Instant(nanoseconds: -1_000_000_000_000)
    private var isFalling = false

    public init() {}

    public func mayRise(now: Instant) -> Bool { now >= heldUntil }

    /// The slot goes to another rung, or stays.
    public mutating func settle(on rung: Int, now: Instant) {
        if rung < self.rung {
            // The steps of one fall count once.
            if !isFalling {
                let isRegretted = now - raisedAt < Self.regretTime
                wait = isRegretted ? min(wait * 2, Self.longestWait) : max(wait / 2, Self.shortestWait)
            }
            isFalling = true
            heldUntil = now + wait
        } else if rung > self.rung {
            isFalling = false
            raisedAt = now
        }
        self.rung = rung
    }

    /// The ladder changed under the slot: it stands on `rung` now, which was nobody's decision.
    public mutating func renumber(to rung: Int) { self.rung = rung }
}

/// One slot's wish and what it gets.
public struct LayerDemand: Sendable {
    public var ladder: LayerLadder
    /// The highest rung worth sending, by the height in which the receiver shows it.
    public var highest: Int
    public var choice: LayerChoice

    public init(ladder: LayerLadder, highest: Int, choice: LayerChoice) {
        self.ladder = ladder
        self.highest = max(0, min(highest, ladder.count - 1))
        self.choice = choice
        // To show less is the receiver's own wish, no sign of its path: it may rise again at once.
        if choice.rung > self.highest { self.choice.renumber(to: self.highest) }
    }
}

/// Shares what one receiver's path carries among its slots.
public enum LayerBudget {
    /// A rung that a slot is not on yet has to fit with a fifth to spare.
    static let riseMargin = 1.2
    /// The one it is on may overdraw by a twentieth: rates and estimate are never still.
    static let stayMargin = 0.95

    /// Decides every slot's rung: all get the lowest, then one rung at a time goes to one slot after the other, the first
    /// slot first, as long as it fits.
    /// - Parameter budget: bits per second for all slots together.
    /// - Returns: what all slots would need together on their highest rungs.
    @discardableResult
    public static func share(_ budget: Int, among demands: inout [LayerDemand], now: Instant) -> Int {
        var rungs = [Int](repeating: 0, count: demands.count)
        var spent = demands.reduce(0) { $0 + ($1.ladder.count > 0 ? $1.ladder.rate(of: 0) : 0) }
        let wanted = demands.reduce(0) { $0 + ($1.ladder.count > 0 ? $1.ladder.rate(of: $1.highest) : 0) }
        var hasRisen = true
        while hasRisen {
            hasRisen = false
            for (index, demand) in demands.enumerated() where rungs[index] < demand.highest {
                let next = rungs[index] + 1
                let needed = spent - demand.ladder.rate(of: rungs[index]) + demand.ladder.rate(of: next)
                let isRise = next > demand.choice.rung
                let margin = isRise ? riseMargin : stayMargin
                guard Double(needed) * margin <= Double(budget), !isRise || demand.choice.mayRise(now: now) else {
                    continue
                }
                rungs[index] = next
                spent = needed
                hasRisen = true
            }
        }
        for index in demands.indices { demands[index].choice.settle(on: rungs[index], now: now) }
        return wanted
    }
}
