import RTPCore

/// What a decision brought to light about how calls go, for the node's metrics. Durations are exact to the millisecond.
public enum CallMeasure: Hashable, Sendable {
    /// From a session's answer to its keys: ICE and DTLS are up.
    case prepared(after: Interval)
    /// From being joined to the first packet of a kind.
    case firstMedia(MediaKind, after: Interval)
    /// Ten seconds of a joined participant's leg.
    case leg(LegSeries.Row)
    /// A room is over.
    case ended(RoomOutcome)
}
