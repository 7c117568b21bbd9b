/// Who may end a ring with which status: the table of CALLS.md ("Who may end with which status"), row by row,
/// and nothing else. An ended room is answered with its outcome before this is asked.
public enum RingAuthority {
    public enum Role: Hashable, Sendable, CaseIterable {
        case caller
        /// Still rung. In a group each callee is before the claim until it has claimed itself.
        case callee
        /// Answered, on this device, or spoken for by the server.
        case claimer
        /// Another device of the one who answered, or one whose own ring is over: too late for everything, and
        /// never able to hang up a call that it is not in.
        case late
        /// In the answered group call without having been rung.
        case guest
    }

    public enum Verdict: Hashable, Sendable {
        case forbid
        case nothing
        /// Outcome `cancelled`.
        case cancel
        /// Ends this user's ring; in a peer room the room with it.
        case decline(RoomOutcome)
        /// `unanswered` or `unreachable`: of this user's ring, or of all where the caller says so.
        case ringOut
        /// Peer: the room ends as `ended`; group: the user leaves.
        case hangUp
    }

    /// - Parameter isClaimed: the caller is after the claim; the other roles say so by themselves.
    public static func verdict(on status: EndStatus, by role: Role, isClaimed: Bool) -> Verdict {
        switch (role, status) {
        case (.caller, .cancelled), (.caller, .ended): isClaimed ? .hangUp : .cancel
        case (.caller, .rejected), (.caller, .busy): isClaimed ? .nothing : .forbid
        case (.caller, .unanswered): isClaimed ? .nothing : .ringOut

        case (.callee, .cancelled): .forbid
        case (.callee, .rejected), (.callee, .ended): .decline(.rejected)
        case (.callee, .busy): .decline(.busy)
        case (.callee, .unanswered): .ringOut

        case (.claimer, .cancelled): .forbid
        case (.claimer, .rejected), (.claimer, .busy), (.claimer, .ended): .hangUp
        case (.claimer, .unanswered): .nothing

        case (.late, .cancelled), (.guest, .cancelled): .forbid
        case (.late, _): .nothing
        case (.guest, .ended): .hangUp
        case (.guest, _): .nothing
        }
    }
}
