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
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            log.write(.error, "a journal record is not understood and left out: \(error)")
            return nil
        }
    }
}
