import RTPCore

/// Makes a leg's series of its counters while the participant is joined: a pure value in virtual time, held beside the room's
/// record. It is not stored: after a restart of control the first row spans everything from the join on.
struct LegRecorder: Sendable {
    private(set) var series: LegSeries
    /// What the row at hand is counted from.
    private var base: TransportStatistics
    private var since: Instant
    private var latest: TransportStatistics
    /// The largest since `since`.
    private var peaks = LegSeries.Row()

    /// - Parameters:
    ///   - startMs: the wall clock's time at `since`, when the participant joined.
    ///   - first: the first counters that are known of it.
    init(since: Instant, startMs: Int64, first: TransportStatistics) {
        series = LegSeries(startMs: startMs)
        base = TransportStatistics()
        // Of the whole worker since its start: what came before is no business of this leg.
        base.workerOverflows = first.workerOverflows
        latest = base
        self.since = since
    }

    /// Takes counters; a row when one is over: ten seconds, always, whatever the series makes of it.
    mutating func receive(_ statistics: TransportStatistics, at time: Instant) -> LegSeries.Row? {
        note(statistics)
        guard (time - since).milliseconds >= LegSeries.firstStepMs - 500 else { return nil }
        return close(at: time)
    }

    /// The series with all that is known, at the leg's end.
    mutating func finish(_ statistics: TransportStatistics, at time: Instant) -> LegSeries {
        note(statistics)
        if (time - since).milliseconds >= 1_000 {
            _ = close(at: time)
        } else {
            series.addToLast(row(at: time))
        }
        return series
    }

    private mutating func note(_ statistics: TransportStatistics) {
        latest = statistics
        let row = LegSeries.Row(from: statistics, to: statistics, spanMs: 0)
        for path in LegSeries.Row.peaks { peaks[keyPath: path] = max(peaks[keyPath: path], row[keyPath: path]) }
    }

    private mutating func close(at time: Instant) -> LegSeries.Row {
        let row = row(at: time)
        series.append(row)
        base = latest
        since = time
        peaks = LegSeries.Row()
        return row
    }

    private func row(at time: Instant) -> LegSeries.Row {
        var row = LegSeries.Row(from: base, to: latest, spanMs: max(0, (time - since).milliseconds))
        for path in LegSeries.Row.peaks { row[keyPath: path] = max(peaks[keyPath: path], row[keyPath: path]) }
        return row
    }
}
