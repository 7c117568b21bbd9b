import Foundation
import RelayHTTP
import Testing

/// The raw requests of `Fixtures/vectors/http_requests.json` and what the server must do with each.
struct RequestVector: Sendable, CustomTestStringConvertible {
    let name: String
    let expect: String
    let bytes: [UInt8]

    var testDescription: String { name }

    /// The statuses by which the server may refuse the request itself.
    var refusals: Set<Int> {
        if expect.hasPrefix("404") { return [] }
        return Set(expect.split { !$0.isNumber }.compactMap { Int($0) }.filter { (400...599).contains($0) })
            .subtracting([404])
    }

    /// Whether the request may reach the application.
    var mayBeAccepted: Bool {
        expect.contains("accept") || expect.contains("handle") || expect.contains("404")
    }

    /// Whether the server may wait for more.
    var mayWait: Bool { expect.contains("wait") }

    /// Whether the vector ends inside a request, so that a request behind it would be its body.
    var isPartial: Bool { mayWait && name != "chunk-data-short" }

    static let all: [RequestVector] = {
        struct File: Decodable {
            struct Case: Decodable {
                enum Part: Decodable {
                    case text(String)
                    case count(Int)

                    init(from decoder: any Decoder) throws {
                        let container = try decoder.singleValueContainer()
                        if let text = try? container.decode(String.self) {
                            self = .text(text)
                        } else {
                            self = .count(try container.decode(Int.self))
                        }
                    }
                }
                let name: String
                let expect: String
                let hex: String?
                let parts: [[Part]]?
            }
            let cases: [Case]
        }
        let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Fixtures/vectors/http_requests.json")
        guard let data = try? Data(contentsOf: path),
            let file = try? JSONDecoder().decode(File.self, from: data)
        else { return [] }
        return file.cases.map { row in
            var bytes = row.hex.map(decode) ?? []
            for part in row.parts ?? [] {
                guard case .text(let hex) = part[0], case .count(let count) = part[1] else { continue }
                let piece = decode(hex)
                for _ in 0..<count { bytes.append(contentsOf: piece) }
            }
            return RequestVector(name: row.name, expect: row.expect, bytes: bytes)
        }
    }()

    private static func decode(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
        }
    }
}
