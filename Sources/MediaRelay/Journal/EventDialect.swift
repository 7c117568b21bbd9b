/// In whose words events are told.
package enum EventDialect: String, Sendable, CaseIterable {
    /// As they are stored.
    case current
    /// The earlier ringing dialect (CALLS.md, "The old names"): calls only.
    case legacy

    /// The event in these words, under the same numbers; nil when the dialect does not have it.
    func projected(_ event: JournalEvent) -> JournalEvent? {
        switch self {
        case .current: event
        case .legacy: LegacyDialect.projected(event)
        }
    }
}
