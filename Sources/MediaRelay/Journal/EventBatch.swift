import RelayCore

/// Some of the log for a reader in this process, asked for on the journal's thread.
package struct EventBatchRequest: Sendable {
    /// Names the reader; a later request of the same one takes the place of one that waits.
    package var reader: String
    package var after: UInt64
    /// A room's id, "" for the events without room; nil: all, and then answered only when there is something after
    /// `after`.
    package var stream: String?
    package var limit: Int
    /// Called on the journal's thread.
    package var deliver: @Sendable (EventBatch) -> Void
    package init(
        reader: String, after: UInt64, stream: String?, limit: Int, deliver: @escaping @Sendable (EventBatch) -> Void
    ) {
        self.reader = reader
        self.after = after
        self.stream = stream
        self.limit = limit
        self.deliver = deliver
    }
}

/// What a batch request is answered.
package struct EventBatch: Sendable {
    /// As asked.
    package var after: UInt64
    /// In order; at most 512 KiB, or one event.
    package var events: [JournalEvent]
    /// The oldest event that is kept; one after `newest` when there is none.
    package var oldest: UInt64
    /// The newest event.
    package var newest: UInt64
    package init(after: UInt64, events: [JournalEvent], oldest: UInt64, newest: UInt64) {
        self.after = after
        self.events = events
        self.oldest = oldest
        self.newest = newest
    }
}

/// `events.truncated` as an event: what a consumer gets whose cursor is older than what the log keeps, before
/// anything else. Its `seq` is the cursor from which the log goes on.
struct TruncationNotice {
    var id: String
    var seq: UInt64
    var json: [UInt8]

    /// - Parameters:
    ///   - after: the consumer's cursor.
    ///   - oldest: the oldest event that is kept.
    init(after: UInt64, oldest: UInt64, room: String?, timeMs: Int64) {
        id = "evt_\(after)_truncated_\(oldest)"
        seq = oldest - 1
        var fields: [JSONValue.Field] = [
            .init("seq", .integer(Int64(clamping: oldest - 1))), .init("roomSeq", .integer(0)),
            .init("id", .string(id)), .init("type", .string(RelayEventType.eventsTruncated.rawValue)),
            .init("time", ViewJSON.time(timeMs)),
        ]
        if let room { fields.append(.init("roomId", .string(room))) }
        fields.append(
            .init(
                "data",
                .object([
                    .init("after", .integer(Int64(clamping: after))),
                    .init("oldest", .integer(Int64(clamping: oldest))),
                ])))
        json = JSONText.of(.object(fields))
    }
}
