import RTPCore

// Who is in which slot of a group room.

extension MediaEngine {
    /// What a receiver wishes for its slots, as a whole.
    func setWishes(_ wishes: [SlotWish], of index: Int32, now: Instant) {
        forEachSlot(of: index) { slot in
            let subscription = subscriptions[slot]
            let wish = wishes.first { Int32($0.section) == subscription.pointee.section }
            subscription.pointee.wantedHeight = wish?.wantedHeight ?? 0
            subscription.pointee.pinned = wish?.pinned ?? ParticipantHandle(0)
        }
    }
}
