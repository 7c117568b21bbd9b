import RTPCore

// Prompts: sounds of the node's own, played into an audio slot of one receiver by the transport's timer. While one plays,
// the slot's track waits outside its chain, so that the packet path asks nothing; numbers, time and SSRC go on over both
// changes. Whoever has not joined hears a prompt that was ordered for it, and nothing else.

/// What one transport hears of a prompt.
struct PromptPlayer {
    let order: PromptOrder
    /// In the `SoundStore`.
    let sound: Int
    /// The slot that it is heard in.
    let slot: Int32
    /// How often it has been heard.
    var round: UInt32 = 0
    /// The next packet of the sound.
    var position = 0
    /// The slot is given back until the next time.
    var isResting = true
    // What the next packet would say if the prompt were a source of its own.
    var index: UInt64 = 0
    var timestamp: UInt32 = 0

    /// Stands in `Subscription.source` while a prompt plays.
    static let source: Int32 = -2
    /// Later than this it is not caught up with: time goes on without what was missed.
    static let patience = Interval.milliseconds(100)
    /// How much one packet of another source lasts, usually: a prompt begins when that is over.
    static let packetTime = Interval.milliseconds(20)
}

extension MediaEngine {
    /// Begins to play. What the receiver heard of another prompt ends without a word.
    func play(_ order: PromptOrder, to index: Int32, now: Instant) {
        stopPlaying(index, now: now)
        let transport = transports + Int(index)
        guard transport.pointee.flags.contains(.hasKeys), let sound = sounds.index(of: order.sound),
            let slot = promptSlot(of: index)
        else {
            return news.append(.played(transport.pointee.handle, order.prompt, .failed, at: now))
        }
        sounds.begin(sound)
        let player = UnsafeMutablePointer<PromptPlayer>.allocate(capacity: 1)
        player.initialize(to: PromptPlayer(order: order, sound: sound, slot: slot))
        transport.pointee.player = player
        // Not into the packet that is being heard.
        transport.pointee.nextPrompt = max(now, subscriptions[slot].pointee.lastSent + PromptPlayer.packetTime)
        takeSlot(player, now: now)
        timers.setIfEarlier(index, to: transport.pointee.nextPrompt)
    }

    /// Ends the prompt if it is the one that plays; `prompt` nil: whichever.
    func stopPlaying(_ index: Int32, _ prompt: PromptHandle? = nil, now: Instant) {
        guard let player = transports[Int(index)].player, prompt == nil || player.pointee.order.prompt == prompt else {
            return
        }
        giveSlotBack(player, now: now)
        forgetPlayer(of: index)
    }

    /// Frees what a transport that goes was playing.
    func forgetPlayer(of index: Int32) {
        guard let player = transports[Int(index)].player else { return }
        sounds.end(player.pointee.sound)
        player.deinitialize(count: 1)
        player.deallocate()
        transports[Int(index)].player = nil
        transports[Int(index)].nextPrompt = .distantFuture
    }

    /// Sends what is due.
    func sendPrompt(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard let player = transport.pointee.player else { return transport.pointee.nextPrompt = .distantFuture }
        let sound = sounds[player.pointee.sound]
        if now - transport.pointee.nextPrompt > PromptPlayer.patience {
            transport.pointee.nextPrompt = now
            subscriptions[player.pointee.slot].pointee.source = -1
        }
        while transport.pointee.nextPrompt <= now {
            let due = transport.pointee.nextPrompt
            guard player.pointee.position < sound.packetCount else {
                player.pointee.round &+= 1
                guard player.pointee.order.times == 0 || player.pointee.round < player.pointee.order.times else {
                    news.append(.played(transport.pointee.handle, player.pointee.order.prompt, .finished, at: now))
                    return stopPlaying(index, now: now)
                }
                player.pointee.position = 0
                if player.pointee.order.pause > .zero { giveSlotBack(player, now: now) }
                transport.pointee.nextPrompt = due + player.pointee.order.pause
                continue
            }
            if player.pointee.isResting { takeSlot(player, now: now) }
            sendPacket(of: sound, player, to: index, due: due, now: now)
            let ticks = sound.ticks[player.pointee.position]
            player.pointee.position += 1
            player.pointee.index &+= 1
            player.pointee.timestamp &+= UInt32(ticks)
            transport.pointee.nextPrompt = due + .nanoseconds(Int64(ticks) * 1_000_000 / 48)
        }
    }

    private func sendPacket(
        of sound: SoundStore.Entry, _ player: UnsafeMutablePointer<PromptPlayer>, to index: Int32, due: Instant,
        now: Instant
    ) {
        let subscription = subscriptions[player.pointee.slot]
        guard transports[Int(index)].gates.passesToReceiver(.audio) else {
            // Who is on hold hears nothing; the prompt goes on in time.
            return subscription.pointee.source = -1
        }
        let isFirst = subscription.pointee.source != PromptPlayer.source
        if isFirst {
            align(
                subscription, to: PromptPlayer.source, index: player.pointee.index,
                timestamp: player.pointee.timestamp, now: due)
        }
        let start = player.pointee.position == 0 ? 0 : Int(sound.ends[player.pointee.position - 1])
        elementCount = 0
        pass(
            subscription, header: RTPHeader(marker: isFirst, timestamp: player.pointee.timestamp),
            packet: sound.bytes, payload: sound.bytes + start,
            payloadByteCount: Int(sound.ends[player.pointee.position]) - start, index: player.pointee.index, now: now)
        // By the plan, not by the timer: the next source's time follows from it.
        subscription.pointee.lastSent = due
    }

    // MARK: The slot

    /// In a peer room the one on which the other side is heard; in a group a free one, else the last one.
    private func promptSlot(of index: Int32) -> Int32? {
        let isPeer = rooms[Int(transports[Int(index)].room)]?.isPeer ?? true
        var first: Int32?
        var last: Int32?
        var free: Int32?
        // Slots are chained newest first.
        forEachSlot(of: index) { slot in
            guard subscriptions[slot].pointee.kind == .audio else { return }
            if last == nil { last = slot }
            if free == nil, subscriptions[slot].pointee.track < 0 { free = slot }
            first = slot
        }
        return isPeer ? first : free ?? last
    }

    private func takeSlot(_ player: UnsafeMutablePointer<PromptPlayer>, now: Instant) {
        player.pointee.isResting = false
        subscriptions[player.pointee.slot].pointee.isPrompted = true
        if subscriptions[player.pointee.slot].pointee.track >= 0 { updateFlow(player.pointee.slot, now: now) }
        subscriptions[player.pointee.slot].pointee.source = -1
    }

    private func giveSlotBack(_ player: UnsafeMutablePointer<PromptPlayer>, now: Instant) {
        guard !player.pointee.isResting else { return }
        player.pointee.isResting = true
        subscriptions[player.pointee.slot].pointee.isPrompted = false
        subscriptions[player.pointee.slot].pointee.source = -1
        if subscriptions[player.pointee.slot].pointee.track >= 0 { updateFlow(player.pointee.slot, now: now) }
    }
}
