import Foundation
import RelayCore

/// Records of the journal as JSON: inspectable with any SQLite tool.
enum RecordCoding {
    static func encode(_ record: some Encodable) -> [UInt8] {
        do {
            return try RecordEncoder.encode(record)
        } catch {
            preconditionFailure("a record of ours does not encode: \(error)")
        }
    }

    /// Nil, with the reason logged, for a record that this version does not understand.
    static func decode<Record: Decodable>(_ type: Record.Type, _ bytes: [UInt8], log: Log) -> Record? {
        attempt(log) { try JSONDecoder().decode(type, from: Data(bytes)) }
    }

    /// Nil as well for one that cannot be gone on from.
    static func decode(_ room: StoredRoom, log: Log) -> RoomRecord? {
        let record: RoomRecord? = attempt(log) {
            let decoder = JSONDecoder()
            var sessions: [ParticipantID: SessionRecord] = [:]
            for (text, bytes) in room.sessions {
                guard let id = ParticipantID(text) else { continue }
                sessions[id] = try decoder.decode(SessionRecord.self, from: Data(bytes))
            }
            decoder.userInfo[ParticipantRecord.sessionsKey] = sessions
            return try decoder.decode(RoomRecord.self, from: Data(room.record))
        }
        guard let record, !record.isSound else { return record }
        log.write(.error, "the journal's record of room \(record.id) is damaged and left out")
        return nil
    }

    /// Nil as well for one whose numbers are damaged.
    static func decodeKey(_ bytes: [UInt8], log: Log) -> IdempotencyRecord? {
        decode(IdempotencyRecord.self, bytes, log: log).flatMap { $0.isSound ? $0 : nil }
    }

    /// As for keys.
    static func decodeDrain(_ bytes: [UInt8], log: Log) -> DrainRecord? {
        decode(DrainRecord.self, bytes, log: log).flatMap { $0.isSound ? $0 : nil }
    }

    private static func attempt<Record>(_ log: Log, _ body: () throws -> Record) -> Record? {
        do {
            return try body()
        } catch {
            log.write(.error, "a journal record is not understood and left out: \(error)")
            return nil
        }
    }
}
