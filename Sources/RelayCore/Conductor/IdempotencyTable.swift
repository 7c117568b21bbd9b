/// Idempotency records, bounded three ways: keys of one participant's scope, keys and bytes of all servers, and the same of
/// all participants, so that neither crowds out the other. Beyond a bound the oldest are forgotten before their time.
struct IdempotencyTable {
    private struct Entry {
        var record: IdempotencyRecord
        /// Tells it from an earlier record under the same name.
        var ordinal: UInt64
    }
    /// All records of one kind of scope in the order of their coming, with gaps where some were forgotten.
    private struct Pool {
        var line = Line<(name: IdempotencyName, createdAtMs: Int64, ordinal: UInt64)>()
        var count = 0
        var byteCount = 0
    }
    private var entries: [IdempotencyName: Entry] = [:]
    private var pools = [Pool(), Pool()]
    /// The keys of each participant's scope, oldest first.
    private var scopes: [String: [String]] = [:]
    private var ordinal: UInt64 = 0
    /// What was forgotten since this was last emptied.
    var forgotten: [IdempotencyName] = []

    var count: Int { entries.count }

    /// When the oldest came, in milliseconds since the Unix epoch.
    var oldestCreatedAtMs: Int64? { pools.compactMap { $0.line.first?.createdAtMs }.min() }

    func record(keyID: String, key: String) -> IdempotencyRecord? {
        entries[IdempotencyName(keyID: keyID, key: key)]?.record
    }

    /// A name that is here already keeps what it has.
    mutating func insert(_ record: IdempotencyRecord, _ configuration: ConductorConfiguration) {
        let name = IdempotencyName(keyID: record.keyID, key: record.key)
        guard entries[name] == nil else { return }
        ordinal += 1
        entries[name] = Entry(record: record, ordinal: ordinal)
        let index = Self.pool(of: name)
        pools[index].line.append((name, record.createdAtMs, ordinal))
        pools[index].count += 1
        pools[index].byteCount += record.byteCount
        if index == 1 {
            scopes[name.keyID, default: []].append(name.key)
            if let keys = scopes[name.keyID], keys.count > configuration.idempotencyKeysPerUser {
                forget(IdempotencyName(keyID: name.keyID, key: keys[0]))
            }
        }
        while pools[index].count > configuration.idempotencyKeysKept
            || pools[index].byteCount > configuration.idempotencyBytesKept
        {
            guard let oldest = pools[index].line.first else { break }
            forget(oldest.name)
        }
    }

    /// Forgets what came at or before the time.
    mutating func removeAll(createdUntilMs limit: Int64) {
        for index in pools.indices {
            while let oldest = pools[index].line.first, oldest.createdAtMs <= limit { forget(oldest.name) }
        }
    }

    private static func pool(of name: IdempotencyName) -> Int { name.keyID.utf8.first == UInt8(ascii: ":") ? 1 : 0 }

    private mutating func forget(_ name: IdempotencyName) {
        let index = Self.pool(of: name)
        if let entry = entries.removeValue(forKey: name) {
            pools[index].count -= 1
            pools[index].byteCount -= entry.record.byteCount
            forgotten.append(name)
        }
        if index == 1 {
            scopes[name.keyID]?.removeAll { $0 == name.key }
            if scopes[name.keyID]?.isEmpty == true { scopes[name.keyID] = nil }
        }
        // The line begins with one that is here, so that its time is the oldest one's.
        while let first = pools[index].line.first, entries[first.name]?.ordinal != first.ordinal {
            _ = pools[index].line.removeFirst()
        }
        guard pools[index].line.count > 64, pools[index].line.count > 2 * pools[index].count else { return }
        pools[index].line.keep { [entries] in entries[$0.name]?.ordinal == $0.ordinal }
    }
}
