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

    static func decode(_ room: StoredRoom, log: Log) -> RoomRecord? {
        attempt(log) {
            let decoder = JSONDecoder()
            var sessions: [ParticipantID: SessionRecord] = [:]
            for (text, bytes) in room.sessions {
                guard let id = ParticipantID(text) else { continue }
                sessions[id] = try decoder.decode(SessionRecord.self, from: Data(bytes))
            }
            decoder.userInfo[ParticipantRecord.sessionsKey] = sessions
            return try decoder.decode(RoomRecord.self, from: Data(room.record))
        }
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
