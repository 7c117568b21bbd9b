import RTPCore
import Testing

@Suite("Choice of layers")
struct LayerChoiceTests {
    /// 100 and 150 kbit/s for the lowest stream's temporal layers, then 500 and 1,700.
    static var ladder: LayerLadder {
        var ladder = LayerLadder()
        ladder.add(stream: 0, temporalLimit: 0, rate: 100_000)
        ladder.add(stream: 0, temporalLimit: 7, rate: 150_000)
        ladder.add(stream: 1, temporalLimit: 7, rate: 500_000)
        ladder.add(stream: 2, temporalLimit: 7, rate: 1_700_000)
        return ladder
    }

    private func demands(_ count: Int, highest: Int = 3) -> [LayerDemand] {
        Array(repeating: LayerDemand(ladder: Self.ladder, highest: highest, choice: LayerChoice()), count: count)
    }

    private func rungs(_ budget: Int, _ demands: inout [LayerDemand], at seconds: Int64) -> [Int] {
        LayerBudget.share(budget, among: &demands, now: Instant(nanoseconds: seconds * 1_000_000_000))
        return demands.map(\.choice.rung)
    }

    @Test("a ladder's rungs rise in rate, and there are eight at most")
    func ladders() {
        var ladder = LayerLadder()
        for stream in 0..<10 { ladder.add(stream: stream, temporalLimit: 9, rate: 1_000 - stream) }
        #expect(ladder.count == 8)
        for rung in 1..<8 { #expect(ladder.rate(of: rung) > ladder.rate(of: rung - 1)) }
        #expect(ladder.temporalLimit(of: 0) == 7)
        #expect(Self.ladder.top(ofStream: 0) == 1)
        #expect(Self.ladder.top(ofStream: 1) == 2)
        #expect(Self.ladder.top(ofStream: 5) == 3)
        #expect(LayerLadder().top(ofStream: 1) == 0)
    }

    @Test(
        "one slot gets what fits with a fifth to spare",
        arguments: [(0, 0), (170_000, 0), (190_000, 1), (590_000, 1), (610_000, 2), (2_100_000, 3)])
    func one(budget: Int, rung: Int) {
        var demands = demands(1)
        #expect(rungs(budget, &demands, at: 100) == [rung])
    }

    @Test("several slots rise side by side, the first one first")
    func several() {
        var three = demands(3)
        #expect(rungs(1_000_000, &three, at: 100) == [2, 1, 1])
        var more = demands(3)
        #expect(rungs(1_900_000, &more, at: 100) == [2, 2, 2])
    }

    @Test("a slot gets no more than it shows, and the others get the rest")
    func heights() {
        var demands = demands(2)
        demands[0].highest = 1
        #expect(rungs(2_300_000, &demands, at: 100) == [1, 3])
        #expect(LayerBudget.share(0, among: &demands, now: Instant(nanoseconds: 0)) == 1_850_000)
    }

    @Test("a slot stays while the rate overdraws the budget a little, falls at once when by more, and waits to rise")
    func hysteresis() {
        var demands = demands(1)
        #expect(rungs(700_000, &demands, at: 100) == [2])
        #expect(rungs(490_000, &demands, at: 101) == [2])
        #expect(rungs(400_000, &demands, at: 120) == [1])
        #expect(rungs(5_000_000, &demands, at: 121) == [1])
        #expect(rungs(5_000_000, &demands, at: 123) == [3])
    }

    @Test("a slot that is shown smaller for a while is as high as before at once")
    func wishes() {
        var demands = demands(1)
        #expect(rungs(2_100_000, &demands, at: 100) == [3])
        demands = [LayerDemand(ladder: Self.ladder, highest: 1, choice: demands[0].choice)]
        #expect(rungs(2_100_000, &demands, at: 101) == [1])
        demands = [LayerDemand(ladder: Self.ladder, highest: 3, choice: demands[0].choice)]
        #expect(rungs(2_100_000, &demands, at: 102) == [3])
    }

    @Test("a slot that falls soon after it rose waits twice as long each time")
    func backoff() {
        var demands = demands(1)
        var waits: [Int64] = []
        var now: Int64 = 1_000
        for _ in 0..<6 {
            #expect(rungs(700_000, &demands, at: now) == [2])
            now += 1
            #expect(rungs(300_000, &demands, at: now) == [1])
            let fell = now
            while rungs(700_000, &demands, at: now + 1) == [1] { now += 1 }
            now += 1
            waits.append(now - fell)
        }
        #expect(waits == [4, 8, 16, 32, 32, 32])
    }

    @Test("whatever the path does, a slot turns down at most six times in any minute", arguments: 0..<40)
    func bound(seed: UInt64) {
        var random = RandomSource.seeded(seed)
        var demands = demands(1)
        var turns: [Int64] = []
        var (last, wasRising) = (0, false)
        for step in 0..<6_000 {
            let now = Instant(nanoseconds: Int64(step) * 100_000_000)
            // Anything from calm to alternating.
            let budget = Int.random(in: 50_000...3_000_000, using: &random) / (step / 7 % Int(seed % 5 + 1) + 1)
            LayerBudget.share(budget, among: &demands, now: now)
            let rung = demands[0].choice.rung
            if rung < last, wasRising { turns.append(Int64(step)) }
            if rung != last { wasRising = rung > last }
            last = rung
        }
        #expect(!turns.isEmpty)
        for (index, turn) in turns.enumerated() {
            let inMinute = turns[index...].prefix { $0 < turn + 600 }.count
            #expect(inMinute <= LayerChoice.turnBound)
        }
    }

    @Test("slots without a ladder cost nothing")
    func empty() {
        var demands = [LayerDemand(ladder: LayerLadder(), highest: 3, choice: LayerChoice())]
        #expect(LayerBudget.share(100, among: &demands, now: Instant(nanoseconds: 0)) == 0)
        #expect(demands[0].choice.rung == 0)
    }
}
