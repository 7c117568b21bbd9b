import Foundation
import RTPCore
import RelayCore
import Testing

/// Every input × every state: what `Tests/Fixtures/ring-table.txt` says, cell by cell, is what the conductor does. The
/// file is read by people against CALLS.md; `RING_TABLE=PATH` writes what is, to be read before it is put there.
@Suite("Ring: every input in every state")
struct RingTableTests {
    static let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Fixtures/ring-table.txt")

    @Test("the table says what the conductor does")
    func table() throws {
        let actual = Self.sections.flatMap { section -> [String] in
            // Nothing changes a room that has ended: one scene serves all its rows.
            let ended = section.state == .ended ? section.outcomes.map { section.scene($0) } : []
            return ["", "## \(section.title)"]
                + TableInput.all.flatMap { Self.rows(of: $0, in: section, ended) }
        }
        if let path = ProcessInfo.processInfo.environment["RING_TABLE"] {
            try Data(actual.map { $0 + "\n" }.joined().utf8).write(to: URL(fileURLWithPath: path))
        }
        let text = try String(contentsOf: Self.path, encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let start = try #require(lines.firstIndex { $0.hasPrefix("## ") })
        let said = lines[start...].filter { !$0.isEmpty }
        let done = actual.filter { !$0.isEmpty }
        var section = ""
        for (line, other) in zip(said, done) where line != other {
            Issue.record("\(section): the table says\n\(line)\nand the conductor does\n\(other)")
            return
        }
        for line in said where line.hasPrefix("## ") { section = line }
        #expect(said.count == done.count, "the table has \(said.count) rows of \(done.count); last: \(section)")
    }

    struct Section {
        var title: String
        var kind: RoomKind
        var state: TableState
        /// All that must give the same rows, with the word that stands for what differs.
        var outcomes: [RoomOutcome?]

        func scene(_ outcome: RoomOutcome?, timer: TableTimer? = nil) -> TableScene {
            TableScene(kind, state, outcome: outcome, timer: timer)
        }
    }

    static let sections: [Section] = RoomKind.allCases.flatMap { kind -> [Section] in
        let live: [TableState] = [.initiated, .ringing, .claimed, .connected]
        let ends: [RoomOutcome] = [
            .ended, .rejected, .busy, .cancelled, .unanswered, .unreachable, .failed, .lost, .nodeLost,
        ]
        // A group outlives who is lost.
        let possible = kind == .peer ? ends : ends.filter { $0 != .lost }
        return live.map { Section(title: "\(kind), \($0)", kind: kind, state: $0, outcomes: [nil]) }
            + [Section(title: "\(kind), ended", kind: kind, state: .ended, outcomes: possible)]
            + [TableState.empty, .prepared, .ongoing].map {
                Section(title: "\(kind) without ring, \($0)", kind: kind, state: $0, outcomes: [nil])
            } + [Section(title: "\(kind) without ring, ended", kind: kind, state: .ended, outcomes: [nil])]
    }

    // MARK: Rows

    /// One line for all who get the same.
    static func rows(of input: TableInput, in section: Section, _ ended: [TableScene]) -> [String] {
        var results: [(who: [String], result: String)] = []
        for who in subjects(of: input, section) {
            let each = Set(
                section.outcomes.indices.map { index in
                    let outcome = section.outcomes[index]
                    return run(input, by: who, ended.isEmpty ? nil : ended[index], section, outcome)
                })
            let result = each.sorted().joined(separator: " or ")
            if let index = results.firstIndex(where: { $0.result == result }) {
                results[index].who.append(who?.rawValue ?? "")
            } else {
                results.append(([who?.rawValue ?? ""], result))
            }
        }
        return results.map { row in
            let isAll = results.count == 1 && row.who.count > 1
            let who = isAll ? "all" : row.who.joined(separator: " ")
            return [input.name.padded(22), who.padded(40), row.result].joined(separator: " ")
        }
    }

    private static func subjects(of input: TableInput, _ section: Section) -> [TableRole?] {
        switch input {
        case .verb: TableRole.allCases
        // In an ended room nobody is left to be told about, and no timer runs.
        case .news: section.state == .ended ? [] : [.alice, .phone, .laptop]
        case .timer, .node: section.state == .ended ? [] : [nil]
        }
    }

    private static func run(
        _ input: TableInput, by who: TableRole?, _ ended: TableScene?, _ section: Section, _ outcome: RoomOutcome?
    ) -> String {
        var timer: TableTimer?
        if case .timer(let given) = input { timer = given }
        let scene = ended ?? section.scene(outcome, timer: timer)
        let harness = scene.harness
        let before = harness.events.count
        var reply: ControlReply?
        switch input {
        case .verb(_, let make):
            guard let who, let request = make(scene, who) else { return "-" }
            reply = harness.request(who.principal(in: scene.room), request)
        case .news(_, let make):
            guard let session = who.flatMap({ scene.sessions[$0] }) else { return "-" }
            harness.news(make(session, harness.now))
        case .timer: harness.advance(TableTimer.length)
        case .node(_, let change): change(scene)
        }
        var words = reply.map { [Self.word(for: $0, outcome)] } ?? []
        let told = harness.events[before...].filter { $0.type != .nodeStarted && $0.type != .nodeDraining }
        words.append(told.map { scene.text(of: $0) }.joined(separator: ", "))
        return words.filter { !$0.isEmpty }.joined(separator: " ").nonEmpty ?? "-"
    }

    /// The status, and the code of a refusal; the code that tells an outcome is told as CODE.
    private static func word(for reply: ControlReply, _ outcome: RoomOutcome?) -> String {
        switch reply {
        case .problem(let problem):
            let isOutcome = outcome != nil && problem.members.contains { $0.name == "outcome" }
            return "\(problem.status) \(isOutcome ? "CODE" : problem.code)"
        case .created(_, let isNew), .prepared(_, _, _, let isNew): return isNew ? "201" : "200"
        case .trickleIgnored: return "204"
        default: return "200"
        }
    }
}

extension String {
    fileprivate func padded(_ count: Int) -> String { self + String(repeating: " ", count: max(0, count - self.count)) }
    fileprivate var nonEmpty: String? { isEmpty ? nil : self }
}
