import RTPCore

// Bytes of a worker's report on what it carries.

extension LinkWriter {
    mutating func append(_ load: WorkerLoad) {
        append(load.at.nanoseconds)
        append(load.cpu.nanoseconds)
        append(load.packets)
        append(load.backlog.nanoseconds)
        append(load.residentBytes)
        append(load.handshakerSteps)
    }
}

extension LinkReader {
    mutating func load() throws(LinkRefusal) -> WorkerLoad {
        WorkerLoad(
            at: try instant(), cpu: try span("cpu"), packets: try integer(), backlog: try span("backlog"),
            residentBytes: try integer(), handshakerSteps: try integer())
    }

    /// 36 years at most: what is reckoned with it stays a time.
    private mutating func span(_ name: String) throws(LinkRefusal) -> Interval {
        let nanoseconds: Int64 = try integer()
        guard (0...Int64.max / 8).contains(nanoseconds) else { throw .badValue(name) }
        return Interval(nanoseconds: nanoseconds)
    }
}
