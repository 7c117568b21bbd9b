import RTPCore

// Which layers each receiver gets, decided five times a second by what its path carries, by the height in which it shows them
// and by which of them flow; and what nobody needs is kept from being sent.

extension MediaEngine {
    /// `index` receives or sends layers: the choice is looked at regularly.
    func watchLayers(of index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard transport.pointee.nextLayers == .distantFuture else { return }
        transport.pointee.nextLayers = now + Limits.layerInterval
        timers.setIfEarlier(index, to: transport.pointee.nextLayers)
    }

    func reviewLayers(_ index: Int32, now: Instant) {
        let receives = chooseLayers(of: index, now: now)
        let sends = limitLayers(of: index, now: now)
        transports[Int(index)].nextLayers = receives || sends ? now + Limits.layerInterval : .distantFuture
    }

    // MARK: Receiving

    /// Decides for all slots of a receiver. False where it has none with layers.
    @discardableResult
    func chooseLayers(of index: Int32, now: Instant) -> Bool {
        var slots: [Int32] = []
        forEachSlot(of: index) { slot in
            let subscription = subscriptions[slot]
            if subscription.pointee.flow != .stopped, subscription.pointee.layered != nil,
                tracks[subscription.pointee.track].pointee.layer != nil
            {
                slots.append(slot)
            }
        }
        guard !slots.isEmpty else {
            transports[Int(index)].downlink?.pointee.wantedByLayers = 0
            return false
        }
        // Slots are chained newest first; the first in the SDP is the first to rise.
        slots.reverse()
        var demands = slots.map { demand(of: $0) }
        let wanted = LayerBudget.share(layerBudget(of: index), among: &demands, now: now)
        for (slot, demand) in zip(slots, demands) { settle(slot, demand, now: now) }
        if let downlink = transports[Int(index)].downlink {
            downlink.pointee.wantedByLayers = wanted
            probeForLayers(downlink, of: index, now: now)
        }
        return true
    }

    /// What a receiver's path leaves for pictures, bits per second.
    private func layerBudget(of index: Int32) -> Int {
        guard let downlink = transports[Int(index)].downlink else { return Int(Int32.max) }
        var audio = redRate(of: index)
        forEachSlot(of: index) { slot in
            if subscriptions[slot].pointee.kind == .audio, subscriptions[slot].pointee.flow == .passing {
                audio += Limits.audioReserve
            }
        }
        let target = downlink.pointee.estimator.target
        return target - min(audio, target / 4)
    }

    private func demand(of slot: Int32) -> LayerDemand {
        let subscription = subscriptions[slot]
        var layered = LayeredSlot()
        if let pointer = subscription.pointee.layered { layered = pointer.pointee }
        let streams = ranked(subscription.pointee.track)
        var ladder = LayerLadder()
        var current = 0
        for (rank, stream) in streams.enumerated() {
            // What a stream costs has to be known before it is chosen over the lowest.
            guard let rate = tracks[stream].pointee.layer?.pointee.rate, rank == 0 || rate.isKnown else { continue }
            // Only the lowest stream is thinned out: above it the next lower stream is the better picture.
            let temporalCount = rank == 0 ? rate.temporalLayerCount : 1
            for temporal in 0..<temporalCount {
                let isTop = temporal == temporalCount - 1
                let limit = isTop ? LayerLadder.allTemporalLayers : UInt8(temporal)
                ladder.add(stream: rank, temporalLimit: limit, rate: rate.bitsPerSecond(upTo: limit))
                if layered.wish == stream, layered.wishLimit == limit { current = ladder.count - 1 }
            }
        }
        layered.choice.renumber(to: current)
        return LayerDemand(
            ladder: ladder, highest: ladder.top(ofStream: rank(for: wantedHeight(of: slot), among: streams)),
            choice: layered.choice)
    }

    /// Pixels in which the receiver shows the slot; 0: any.
    private func wantedHeight(of slot: Int32) -> Int { Int(subscriptions[slot].pointee.wantedHeight) }

    /// The streams of a track that have ever been measured, the smallest picture first; a track that has only one as it is.
    private func ranked(_ lead: Int32) -> [Int32] {
        guard tracks[lead].pointee.nextLayer >= 0 else { return [lead] }
        var streams: [(track: Int32, height: Int, rate: Int)] = []
        var at = lead
        while at >= 0 {
            let track = tracks[at]
            if let layer = track.pointee.layer, track.pointee.currentSource >= 0 {
                streams.append((at, layer.pointee.height, layer.pointee.rate.bitsPerSecond()))
            }
            at = track.pointee.nextLayer
        }
        let hasHeights = streams.allSatisfy { $0.height > 0 }
        // Without heights the offer's order stands, low to high as clients write it.
        if hasHeights { streams.sort { ($0.height, $0.rate) < ($1.height, $1.rate) } }
        return streams.map(\.track)
    }

    /// The smallest picture that is as high as it is shown, or nearly.
    private func rank(for height: Int, among streams: [Int32]) -> Int {
        guard height > 0 else { return max(0, streams.count - 1) }
        let enough = streams.firstIndex { stream in
            let has = tracks[stream].pointee.layer?.pointee.height ?? 0
            return has == 0 ? false : has * 10 >= height * 9
        }
        return enough ?? max(0, streams.count - 1)
    }

    /// Carries out what was decided for one slot.
    private func settle(_ slot: Int32, _ demand: LayerDemand, now: Instant) {
        let subscription = subscriptions[slot]
        guard let layered = subscription.pointee.layered, demand.ladder.count > 0 else { return }
        let streams = ranked(subscription.pointee.track)
        let rung = demand.choice.rung
        let rank = demand.ladder.stream(of: rung)
        guard rank < streams.count else { return }
        layered.pointee.choice = demand.choice
        layered.pointee.wish = streams[rank]
        layered.pointee.wishLimit = demand.ladder.temporalLimit(of: rung)
        let stream = flowing(rank, among: streams, now: now) ?? subscription.pointee.layer
        layered.pointee.wishedLimit =
            stream == streams[rank] ? layered.pointee.wishLimit : LayerLadder.allTemporalLayers
        riseTemporally(layered, stream, now: now)
        let isThere = subscription.pointee.flow == .passing && subscription.pointee.layer == stream
        aim(slot, at: isThere ? -1 : stream, now: now)
        // A payload that cannot be read never shows a key frame: it passes all the same (T06).
        if subscription.pointee.flow == .untilKeyFrame, layered.pointee.target >= 0,
            now - layered.pointee.targetSince > Limits.keyFramePatience
        {
            let target = layered.pointee.target
            aim(slot, at: -1, now: now)
            enchain(slot, in: target)
        }
    }

    /// Where no picture comes from which on upper temporal layers could pass again, a key frame is one.
    private func riseTemporally(_ layered: UnsafeMutablePointer<LayeredSlot>, _ stream: Int32, now: Instant) {
        guard layered.pointee.limit < layered.pointee.wishedLimit else {
            layered.pointee.risesSince = .distantFuture
            return
        }
        layered.pointee.risesSince = min(layered.pointee.risesSince, now)
        guard now - layered.pointee.risesSince > Limits.risePatience else { return }
        layered.pointee.risesSince = .distantFuture
        if tracks[stream].pointee.asksKeyFrames { askForKeyFrame(stream, now: now) }
    }

    /// The stream of `rank`, or the next lower one that flows, or the next higher; nil where none does.
    private func flowing(_ rank: Int, among streams: [Int32], now: Instant) -> Int32? {
        for at in stride(from: rank, through: 0, by: -1) where flows(streams[at], now: now) { return streams[at] }
        return streams.dropFirst(rank + 1).first { flows($0, now: now) }
    }

    /// False for a stream that has stopped while others of its track go on.
    private func flows(_ stream: Int32, now: Instant) -> Bool {
        let track = tracks[stream]
        guard track.pointee.currentSource >= 0, let layer = track.pointee.layer else { return false }
        guard let first = tracks[track.pointee.lead].pointee.layer else { return false }
        let missed = first.pointee.pictureCount &- layer.pointee.countAtNewest
        return missed <= Limits.missedPictures || now - layer.pointee.lastPacketAt < Limits.shortestStall
    }

    // MARK: Sending

    /// Tells a sender of simulcast by REMB what the streams that somebody wants need, so that it stops the others, from the
    /// top down (no client takes a finer word without renegotiation); and to send all again as soon as one is wanted.
    /// False for one that sends no simulcast.
    private func limitLayers(of index: Int32, now: Instant) -> Bool {
        let transport = transports + Int(index)
        guard let lead = simulcastTrack(of: index) else { return false }
        guard transport.pointee.flags.contains([.usesREMB, .joined]) else { return true }
        let streams = ranked(lead)
        for stream in streams {
            guard let layer = tracks[stream].pointee.layer else { continue }
            layer.pointee.peakRate = max(layer.pointee.peakRate * 199 / 200, layer.pointee.rate.bitsPerSecond())
        }
        guard streams.count > 1 else { return true }
        let top = max(0, highestWish(lead, streams))
        hold(
            index, at: min(layerLimit(of: index, streams, top: top, now: now), pathLimit(of: index, streams)), now: now)
        return true
    }

    /// What the streams up to `top` need, once nobody has wanted the higher ones for some time.
    private func layerLimit(of index: Int32, _ streams: [Int32], top: Int, now: Instant) -> UInt64 {
        let transport = transports + Int(index)
        guard top < streams.count - 1 else {
            transport.pointee.layersUnneededSince = .distantFuture
            return Limits.openREMB
        }
        if transport.pointee.layersUnneededSince == .distantFuture { transport.pointee.layersUnneededSince = now }
        guard now - transport.pointee.layersUnneededSince >= Limits.layerRest else { return Limits.openREMB }
        let needed = streams[...top].reduce(0) { $0 + (tracks[$1].pointee.layer?.pointee.peakRate ?? 0) }
        // In steps, so that what is told does not follow every picture.
        let step = 50_000
        return UInt64((needed * 11 / 10 + Limits.senderReserve) / step * step + step)
    }

    /// In a peer room the other side's path may be below even the lowest stream: then the sender is held to it.
    private func pathLimit(of index: Int32, _ streams: [Int32]) -> UInt64 {
        guard let room = rooms[Int(transports[Int(index)].room)], room.isPeer,
            let lowest = tracks[streams[0]].pointee.layer?.pointee.peakRate
        else { return Limits.openREMB }
        var limit = Limits.openREMB
        for other in room.members where other != index && transports[Int(other)].flags.contains(.joined) {
            guard let downlink = transports[Int(other)].downlink, downlink.pointee.isLimiting else { continue }
            let target = downlink.pointee.estimator.target
            if target < lowest { limit = min(limit, UInt64(target)) }
        }
        return limit
    }

    func simulcastTrack(of index: Int32) -> Int32? {
        var at = transports[Int(index)].firstTrack
        while at >= 0 {
            if tracks[at].pointee.nextLayer >= 0 { return at }
            at = tracks[at].pointee.nextOfTransport
        }
        return nil
    }

    /// The highest rank that any slot would get if it flowed; -1 where nobody gets the track.
    private func highestWish(_ lead: Int32, _ streams: [Int32]) -> Int {
        var highest = -1
        let room = transports[Int(tracks[lead].pointee.transport)].room
        for member in rooms[Int(room)]?.members ?? [] {
            forEachSlot(of: member) { slot in
                let subscription = subscriptions[slot]
                guard subscription.pointee.track == lead, subscription.pointee.flow != .stopped,
                    let layered = subscription.pointee.layered
                else { return }
                // Not chosen yet: it may be any.
                let rank = streams.firstIndex(of: layered.pointee.wish) ?? streams.count - 1
                highest = max(highest, rank)
            }
        }
        return highest
    }
}
