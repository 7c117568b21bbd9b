import Foundation
import MediaRelay
import RelayCore

/// What consumers of events were told, judged by the events' words alone: one content for a number, no number left out or used
/// twice, one outcome for a call, everything in the order of a call's life. Knows nothing of the relay's inside.
struct EventAudit {
    private(set) var failures: [String] = []
    /// The first telling of each event, by number.
    private(set) var told: [UInt64: [UInt8]] = [:]
    private var lives: [String: Life] = [:]
    /// Outcomes that the API answered with.
    private var answered: [String: String] = [:]
    private(set) var kinds: [String: Int] = [:]
    private var nextJudged: UInt64 = 1

    private struct Life {
        var nextRoomSeq = 1
        var isCall = false
        var isPeer = true
        var outcome: String?
        var isClosed = false
        var claims: Set<String> = []
        /// connecting 0, prepared 1, joined 2, left 3.
        var phases: [String: Int] = [:]
    }

    private mutating func fail(_ what: String) { if failures.count < 20 { failures.append(what) } }

    /// Somebody was told an event.
    mutating func heard(_ seq: UInt64, _ json: [UInt8], by reader: String) {
        if let before = told[seq] {
            if before != json {
                fail(
                    "\(reader): event \(seq) was \(String(decoding: before, as: UTF8.self)) and is now "
                        + String(decoding: json, as: UTF8.self))
            }
            return
        }
        told[seq] = json
        while let next = told[nextJudged] {
            judge(nextJudged, String(decoding: next, as: UTF8.self))
            nextJudged += 1
        }
    }

    /// The API told how a room ended.
    mutating func answered(_ outcome: RoomOutcome, of room: RoomID) {
        if let before = answered.updateValue(outcome.rawValue, forKey: room.text), before != outcome.rawValue {
            fail("\(room) was answered as \(before) and then as \(outcome.rawValue)")
        }
        if let told = lives[room.text]?.outcome, told != outcome.rawValue {
            fail("\(room) was told as \(told) and answered as \(outcome.rawValue)")
        }
    }

    /// The text of a field that is a string, anywhere in the event; names are unique enough.
    private static func text(_ name: String, in json: String) -> String? {
        guard let start = json.range(of: "\"\(name)\":\"")?.upperBound else { return nil }
        return String(json[start...].prefix { $0 != "\"" })
    }

    private static func number(_ name: String, in json: String) -> Int? {
        guard let start = json.range(of: "\"\(name)\":")?.upperBound else { return nil }
        return Int(json[start...].prefix { $0.isNumber })
    }

    private mutating func judge(_ seq: UInt64, _ json: String) {
        let type = Self.text("type", in: json) ?? ""
        kinds[type, default: 0] += 1
        if Self.number("seq", in: json) != Int(seq) { fail("event \(seq) says another number: \(json)") }
        guard let room = Self.text("roomId", in: json) else { return }
        var life = lives[room] ?? Life()
        if Self.number("roomSeq", in: json) != life.nextRoomSeq {
            fail("event \(seq) of \(room) should have roomSeq \(life.nextRoomSeq): \(json)")
        }
        life.nextRoomSeq += 1
        if life.isClosed { fail("\(type) after room.closed in \(room)") }
        if let wrong = Self.apply(type, json, to: &life) { fail("\(room): \(wrong) (event \(seq))") }
        if let outcome = life.outcome {
            kinds["outcome \(outcome)", default: 0] += type == "call.ended" ? 1 : 0
            if let said = answered[room], said != outcome {
                fail("\(room) was answered as \(said), told as \(outcome)")
            }
        }
        lives[room] = life
    }

    private static func apply(_ type: String, _ json: String, to life: inout Life) -> String? {
        if life.outcome != nil, type != "participant.left", type != "room.closed" { return "\(type) after call.ended" }
        switch type {
        case "call.initiated":
            if life.isCall { return "two call.initiated" }
            life.isCall = true
            life.isPeer = json.contains("\"isPeerCall\":true")
        case "call.answered":
            let isFirst = life.claims.insert(text("uid", in: json) ?? "").inserted
            if !isFirst || (life.isPeer && life.claims.count > 1) { return "a second claim" }
        case "call.ended":
            guard life.isCall, let outcome = text("outcome", in: json) else {
                return "call.ended without call or outcome"
            }
            life.outcome = outcome
            let isOfRinging = ["rejected", "busy", "cancelled", "unanswered", "unreachable"].contains(outcome)
            if isOfRinging, !life.claims.isEmpty { return "\(outcome) after a claim" }
        case "room.closed":
            if life.isCall, life.outcome == nil { return "room.closed before call.ended" }
            life.isClosed = true
        case "participant.connecting": return advance(json, to: 0, in: &life)
        case "participant.prepared": return advance(json, to: 1, in: &life)
        case "participant.joined": return advance(json, to: 2, in: &life)
        case "participant.left", "participant.replaced": return advance(json, to: 3, in: &life)
        default: break
        }
        return nil
    }

    private static func advance(_ json: String, to phase: Int, in life: inout Life) -> String? {
        guard let id = text("participantId", in: json) else {
            return "an event of a participant without its id: \(json)"
        }
        let before = life.phases[id]
        life.phases[id] = phase
        let isRight = phase == 0 ? before == nil : phase == 3 ? before != nil && before != 3 : before == phase - 1
        return isRight ? nil : "participant \(id) went from \(before.map { "\($0)" } ?? "nothing") to \(phase)"
    }

    /// Everything has been told: nothing may be open.
    mutating func finish(newest: UInt64) {
        if nextJudged != newest + 1 { fail("events after \(nextJudged - 1) of \(newest) were never told") }
        for (room, life) in lives.sorted(by: { $0.key < $1.key }) {
            if !life.isClosed { fail("\(room) was never closed") }
            if life.isCall, life.outcome == nil { fail("\(room) has no outcome") }
            for (id, phase) in life.phases where phase != 3 { fail("\(id) never left \(room)") }
        }
    }

    static func room(of json: [UInt8]) -> String? { text("roomId", in: String(decoding: json, as: UTF8.self)) }

    func outcome(of room: String) -> String? { lives[room]?.outcome }
}
