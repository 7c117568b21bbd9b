import RTPCore

// How a transport comes, joins and goes, and who is wired to whom.

extension MediaEngine {
    // MARK: Coming

    func create(_ configuration: TransportConfiguration, now: Instant) {
        guard transportByHandle[configuration.participant] == nil else { return }
        guard let ufrag = ufragKey(configuration.localICE.ufrag.utf8) else {
            preconditionFailure("a local ufrag of \(configuration.localICE.ufrag.utf8.count) bytes, not 8")
        }
        guard let index = takeTransport() else {
            news.append(.ended(configuration.participant, .handshakeFailed, at: now, TransportStatistics()))
            return
        }
        var transport = Transport()
        transport.handle = configuration.participant
        transport.flags = configuration.joinsWhenReady ? [.live, .joinWanted] : .live
        transport.gates = configuration.gates
        transport.lastAuthenticated = now
        transport.phaseSince = now
        transport.room = enter(configuration, transport: index)
        (transports + Int(index)).initialize(to: transport)
        (paths + Int(index) * Limits.pathsPerTransport)
            .initialize(repeating: Path(), count: Limits.pathsPerTransport)
        details[Int(index)] = TransportDetails(configuration: configuration, tieBreaker: random.next())
        transportByHandle[configuration.participant] = index
        transportByUfrag[ufrag] = index
        for position in configuration.sections.indices {
            addSection(configuration.sections[position], at: Int32(position), to: index)
        }
        if configuration.keepsKeyFrame { keepKeyFrames(of: index) }
        handshakeRequests.append(
            .begin(configuration.participant, fingerprints: configuration.fingerprints))
    }

    /// ufrags are eight bytes of ours: one integer, found without hashing text.
    func ufragKey(_ bytes: some Collection<UInt8>) -> UInt64? {
        guard bytes.count == 8 else { return nil }
        return bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }

    private func takeTransport() -> Int32? {
        if let index = freeTransports.popLast() { return index }
        guard Int(transportsUsed) < configuration.maxTransports else { return nil }
        transportsUsed += 1
        return transportsUsed - 1
    }

    private func enter(_ configuration: TransportConfiguration, transport: Int32) -> Int32 {
        if let room = roomByHandle[configuration.room] {
            rooms[Int(room)]?.members.append(transport)
            let members = rooms[Int(room)]?.members.count ?? 0
            // Every track of a sender may go to every other member; one packet goes to at most that many.
            widestRoom = min(max(widestRoom, members), fanOutBound)
            return room
        }
        let fresh = EngineRoom(
            handle: configuration.room, isPeer: configuration.isPeerRoom, members: [transport],
            group: configuration.isPeerRoom ? nil : GroupFloor())
        let index: Int32
        if let free = freeRooms.popLast() {
            rooms[Int(free)] = fresh
            index = free
        } else {
            rooms.append(fresh)
            index = Int32(rooms.count - 1)
        }
        roomByHandle[configuration.room] = index
        return index
    }

    private var fanOutBound: Int { transmit.capacity / 2 }

    private func addSection(_ section: MediaSection, at position: Int32, to index: Int32) {
        let transport = transports + Int(index)
        if section.clientSends { addTrack(section, at: position, to: transport, index: index) }
        if section.clientReceives { addSlot(section, at: position, to: transport, index: index) }
        if section.feedback.contains(.transportCC), section.extensions[.transportCC] != 0 {
            transport.pointee.flags.insert(.feedsBack)
        }
        if section.feedback.contains(.remb), section.kind == .video, section.clientSends {
            transport.pointee.flags.insert(.usesREMB)
        }
        if section.feedback.contains(.referenceTime) { transport.pointee.flags.insert(.answersReferenceTimes) }
    }

    private func addTrack(
        _ section: MediaSection, at position: Int32, to transport: UnsafeMutablePointer<Transport>, index: Int32
    ) {
        let isPeer = rooms[Int(transport.pointee.room)]?.isPeer == true
        let repairs = section.kind == .video && section.feedback.contains(.nack)
        let track = Track(
            transport: index, section: position, kind: section.kind, codec: section.codec,
            payloadType: section.payloadType, rtxPayloadType: section.rtxPayloadType ?? 0,
            redPayloadType: section.redPayloadType ?? 0,
            transportCCID: section.feedback.contains(.transportCC) ? section.extensions[.transportCC] : 0,
            levels: levelSource(of: section, isPeerRoom: isPeer), levelID: section.extensions[.audioLevel],
            repairsLoss: repairs,
            asksKeyFrames: section.kind == .video && !section.feedback.isDisjoint(with: [.pli, .fir]),
            isAnnounced: false, currentSource: -1, firstSubscription: -1,
            nextOfTransport: transport.pointee.firstTrack)
        guard let slot = tracks.insert(track) else { return }
        transport.pointee.firstTrack = slot
        if section.redPayloadType != nil { keepRecentAudio(of: tracks[slot]) }
        addLayers(section, to: slot, isPeerRoom: rooms[Int(transport.pointee.room)]?.isPeer ?? true)
    }

    private func levelSource(of section: MediaSection, isPeerRoom: Bool) -> LevelSource {
        guard section.kind == .audio, !isPeerRoom else { return .nowhere }
        return section.extensions[.audioLevel] != 0 ? .header : .probe
    }

    private func addSlot(
        _ section: MediaSection, at position: Int32, to transport: UnsafeMutablePointer<Transport>, index: Int32
    ) {
        var mid = SIMD16<UInt8>(repeating: 0)
        for (at, byte) in section.mid.utf8.prefix(16).enumerated() { mid[at] = byte }
        let subscription = Subscription(
            receiver: index, section: position, kind: section.kind, flow: .stopped, track: -1,
            nextOfTrack: -1,
            nextOfReceiver: transport.pointee.firstSubscription, source: -1, sequence: SequenceMap(),
            timestamp: TimestampMap(), ssrc: section.sendSSRC, rtxSSRC: section.sendRTXSSRC,
            payloadType: section.payloadType, rtxPayloadType: section.rtxPayloadType ?? 0,
            redPayloadType: section.redPayloadType ?? 0, midID: section.extensions[.mid],
            transportCCID: transportCCID(of: section),
            midByteCount: UInt8(min(section.mid.utf8.count, 16)), mid: mid,
            passedIDs: SIMD16(repeating: 0), rtxIndex: SequenceMap.drawFirstOutput(using: &random), packetsSent: 0,
            octetsSent: 0,
            lastSent: Instant(nanoseconds: 0), repairBudget: TokenBucket(), firstOutput: 0, remote: SlotReport())
        guard let slot = subscriptions.insert(subscription) else { return }
        transport.pointee.firstSubscription = slot
        if transport.pointee.reporterSSRC == 1 { transport.pointee.reporterSSRC = section.sendSSRC }
    }

    // MARK: Joining

    /// Opens the gate, now or as soon as keys are in.
    func join(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        transport.pointee.flags.insert(.joinWanted)
        guard transport.pointee.flags.contains(.hasKeys), !transport.pointee.flags.contains(.joined) else { return }
        transport.pointee.flags.insert(.joined)
        transport.pointee.phaseSince = now
        startGaps(index)
        // The gate's side effects only: media that waited in the gate does not exist.
        transport.pointee.nextStatistics = now + Limits.statisticsInterval
        if transport.pointee.nextCheck > now + Limits.checkIntervalJoined {
            transport.pointee.nextCheck = now + Limits.checkIntervalJoined
        }
        // Who only receives gets sender reports as well.
        if transport.pointee.nextReport == .distantFuture, transport.pointee.firstSubscription >= 0 {
            transport.pointee.nextReport = now + Limits.reportInterval
        }
        news.append(.joined(transport.pointee.handle, at: now))
        updateRecording(of: index, now: now)
        fillSlots(ofRoom: transport.pointee.room, now: now)
        reschedule(index, now: now)
    }

    /// In a peer room gives every joined member's tracks to the other joined member's free slots of the kind. Whether a
    /// track then passes is for the gates to say: who is muted or held keeps its slots. In a group who gets which is chosen.
    func fillSlots(ofRoom roomIndex: Int32, now: Instant) {
        guard let members = rooms[Int(roomIndex)]?.members else { return }
        guard rooms[Int(roomIndex)]?.group == nil else {
            rechoose(roomIndex, now: now)
            return releaseKeptKeyFrames(ofRoom: roomIndex)
        }
        for receiver in members where transports[Int(receiver)].flags.contains(.joined) {
            for sender in members
            where sender != receiver && transports[Int(sender)].flags.contains(.joined) {
                var track = transports[Int(sender)].firstTrack
                while track >= 0 {
                    offer(track, to: receiver, now: now)
                    track = tracks[track].pointee.nextOfTransport
                }
            }
        }
        releaseKeptKeyFrames(ofRoom: roomIndex)
    }

    /// Puts `track` on a free slot of `receiver`, unless it has one already or none is free.
    private func offer(_ track: Int32, to receiver: Int32, now: Instant) {
        let kind = tracks[track].pointee.kind
        let codec = tracks[track].pointee.codec
        var free: Int32 = -1
        var at = transports[Int(receiver)].firstSubscription
        while at >= 0 {
            let subscription = subscriptions[at]
            if subscription.pointee.track == track { return }
            // Slots are chained newest first: the last free one found is the first in the SDP.
            if subscription.pointee.track < 0, subscription.pointee.kind == kind,
                section(of: receiver, subscription.pointee.section).codec == codec
            {
                free = at
            }
            at = subscription.pointee.nextOfReceiver
        }
        if free >= 0 { link(track, to: free, now: now) }
    }

    func section(of transport: Int32, _ position: Int32) -> MediaSection {
        guard let details = details[Int(transport)] else { preconditionFailure("a transport without details") }
        return details.configuration.sections[Int(position)]
    }

    // MARK: Going

    /// The conductor's wish: say goodbye, forget, tell the last counters.
    func remove(_ index: Int32, now: Instant) {
        news.append(.removed(transports[Int(index)].handle, statistics(of: index, now: now), at: now))
        stop(index, now: now)
    }

    private func stop(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        let room = transport.pointee.room
        if transport.pointee.flags.contains(.hasKeys) { rememberForGoodbye(transport.pointee) }
        releaseHold(by: index, now: now)
        handshakeRequests.append(.close(transport.pointee.handle))
        release(index)
        // A slot that became free may have been waited for.
        fillSlots(ofRoom: room, now: now)
    }

    /// It ended by itself: tell, and while control is away carry out the peer room's rule.
    func end(_ index: Int32, _ reason: TransportEnd, now: Instant) {
        let transport = transports[Int(index)]
        let room = rooms[Int(transport.room)]
        news.append(.ended(transport.handle, reason, at: now, statistics(of: index, now: now)))
        // What closed or failed has said its last; a lost one is not written to any more.
        handshakeRequests.append(.close(transport.handle))
        releaseHold(by: index, now: now)
        release(index)
        fillSlots(ofRoom: transport.room, now: now)
        guard isAlone, let room, room.isPeer, transport.flags.contains(.joined),
            reason == .closed || reason == .lost
        else { return }
        for other in room.members where other != index && transports[Int(other)].flags.contains(.joined) {
            let handle = transports[Int(other)].handle
            news.append(.ended(handle, .peerLeft, at: now, statistics(of: other, now: now)))
            stop(other, now: now)
        }
    }

    /// A transport's last datagram is made by the handshaker after the transport is gone: where it goes is kept until then.
    private func rememberForGoodbye(_ transport: Transport) {
        guard transport.hasPeer else { return }
        if goodbyes.count >= 4_096 { goodbyes.removeAll() }
        goodbyes[transport.handle] = (transport.peer, transport.local)
    }

    /// Gives back everything that transport `index` owns.
    func release(_ index: Int32) {
        let transport = transports + Int(index)
        guard let details = details[Int(index)] else { preconditionFailure("released twice") }
        forgetPlayer(of: index)
        var slot = transport.pointee.firstSubscription
        while slot >= 0 {
            let next = subscriptions[slot].pointee.nextOfReceiver
            forgetNext(slot)
            unlink(slot)
            if let layered = subscriptions[slot].pointee.layered { LayeredSlot.destroy(layered) }
            subscriptions.remove(slot)
            slot = next
        }
        transport.pointee.firstSubscription = -1
        var track = transport.pointee.firstTrack
        while track >= 0 {
            let next = tracks[track].pointee.nextOfTransport
            unlinkAll(track, inRoom: transport.pointee.room)
            endProbe(of: track)
            if let recent = tracks[track].pointee.recent { RecentAudio.destroy(recent) }
            releaseStreams(of: track)
            track = next
        }
        for k in 0..<Int(transport.pointee.sourceCount) {
            sourceAt(Int(index) * Limits.sourcesPerTransport + k).pointee.replay.destroy()
        }
        transport.pointee.transportFeedback?.destroy()
        if let downlink = transport.pointee.downlink { Downlink.destroy(downlink) }
        transport.pointee.receiveCipher?.destroy()
        transport.pointee.sendCipher?.destroy()
        for k in 0..<Int32(transport.pointee.pathCount) {
            flows.remove(pathAt(index, k).pointee.address, ownedBy: index)
        }
        forgetUfrag(details.localICE.ufrag, of: index)
        if let old = details.oldICE { forgetUfrag(old.local.ufrag, of: index) }
        transportByHandle[transport.pointee.handle] = nil
        timers.clear(index)
        leave(room: transport.pointee.room, transport: index)
        transport.pointee.flags = []
        self.details[Int(index)] = nil
        freeTransports.append(index)
    }

    func forgetUfrag(_ ufrag: String, of index: Int32) {
        guard let key = ufragKey(ufrag.utf8), transportByUfrag[key] == index else { return }
        transportByUfrag[key] = nil
    }

    private func leave(room index: Int32, transport: Int32) {
        guard var room = rooms[Int(index)] else { preconditionFailure("a member of no room") }
        rooms[Int(index)] = nil
        room.members.removeAll { $0 == transport }
        if room.members.isEmpty {
            roomByHandle[room.handle] = nil
            roomTimers.clear(index)
            freeRooms.append(index)
        } else {
            rooms[Int(index)] = room
        }
    }
}
