import RelayCore

/// A leg's figures over time as the API's JSON: a list for each figure, all of one length, so that a record stays short.
enum SeriesJSON {
    static func list(_ legs: [LegSeriesView]) -> JSONValue {
        let entries: [JSONValue] = legs.map { leg in
            var fields: [JSONValue.Field] = [
                .init("participantId", .string(leg.participant.text)), .init("uid", .string(leg.uid)),
                .init("device", .string(leg.device)),
            ]
            if let left = leg.leftAtMs { fields.append(.init("leftAt", ViewJSON.time(left))) }
            fields.append(.init("series", of(leg.series)))
            return .object(fields)
        }
        return .object([.init("participants", .array(entries))])
    }

    static func of(_ series: LegSeries) -> JSONValue {
        let rows = series.rows
        func list(_ value: (LegSeries.Row) -> JSONValue) -> JSONValue { .array(rows.map(value)) }
        func count(_ path: KeyPath<LegSeries.Row, UInt64>) -> JSONValue {
            list { .integer(Int64(clamping: $0[keyPath: path])) }
        }
        var fields: [JSONValue.Field] = [
            .init("from", ViewJSON.time(series.startMs)), .init("spanMs", list { .integer($0.spanMs) }),
            .init(
                "uplink",
                .object([
                    .init("packets", count(\.packetsReceived)), .init("lost", count(\.packetsLost)),
                    .init("lossPercent", list { percent($0.packetsLost, of: $0.packetsReceived &+ $0.packetsLost) }),
                    .init("jitterMs", list { milliseconds($0.jitterMicroseconds) }),
                    .init("kbps", list { rate($0.bytesReceived, $0) }),
                ])),
            .init(
                "downlink",
                .object([
                    .init("packets", count(\.packetsSent)), .init("lost", count(\.remotePacketsLost)),
                    .init("lossPercent", list { percent($0.remotePacketsLost, of: $0.remotePacketsExpected) }),
                    .init("jitterMs", list { milliseconds($0.remoteJitterMicroseconds) }),
                    .init("kbps", list { rate($0.bytesSent, $0) }),
                ])),
            .init("roundTripMs", list { milliseconds($0.roundTripMicroseconds) }),
        ]
        // What is rare is there where it was.
        func rare(_ name: String, _ path: KeyPath<LegSeries.Row, UInt64>) {
            if rows.contains(where: { $0[keyPath: path] > 0 }) { fields.append(.init(name, count(path))) }
        }
        rare("pathChanges", \.pathChanges)
        rare("discarded", \.packetsDiscarded)
        rare("overflowed", \.workerOverflows)
        return .object(fields)
    }

    private static func rate(_ bytes: UInt64, _ row: LegSeries.Row) -> JSONValue {
        row.spanMs > 0 ? .integer(Int64((Double(bytes) * 8 / Double(row.spanMs)).rounded())) : .integer(0)
    }

    /// With one decimal.
    private static func milliseconds(_ microseconds: UInt64) -> JSONValue {
        .number((Double(microseconds) / 100).rounded() / 10)
    }

    /// With two decimals.
    static func percent(_ part: UInt64, of whole: UInt64) -> JSONValue {
        guard whole > 0 else { return .number(0) }
        return .number((10_000 * Double(min(part, whole)) / Double(whole)).rounded() / 100)
    }
}
