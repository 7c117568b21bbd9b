import RTPCore

// Who is in which slot of a group room: the loudest on audio slots, pinned and last active members on video slots.
// Levels are noted packet by packet; everything else happens ten times a second while somebody speaks, and at once
// when somebody comes, goes, mutes or is pinned.

extension MediaEngine {
    // MARK: Choosing

    /// The room's timer: chooses anew, and goes on as long as there is something to choose for.
    func serviceRoom(_ room: Int32, now: Instant) {
        guard let group = rooms[Int(room)]?.group else { return }
        choose(group, now: now)
        if group.isTellingDue || now - group.activeAt < Limits.choiceAfterSpeech {
            roomTimers.setIfEarlier(room, to: now + Limits.choiceInterval)
        }
    }

    /// Somebody came, went, muted, or wishes something else.
    func rechoose(_ room: Int32, now: Instant) {
        guard let group = rooms[Int(room)]?.group else { return }
        seat(rooms[Int(room)]?.members ?? [], in: group)
        group.activeAt = now
        choose(group, now: now)
        roomTimers.setIfEarlier(room, to: now + Limits.choiceInterval)
    }

    private func choose(_ group: GroupFloor, now: Instant) {
        listen(group, now: now)
        rankPictures(group, now: now)
        var hasChanged = false
        for at in group.seats.indices {
            if chooseVoices(for: at, in: group, now: now) { hasChanged = true }
            if choosePictures(for: at, in: group, now: now) { hasChanged = true }
        }
        if hasChanged || group.isTellingDue { tellSlots(of: group, now: now) }
    }

    /// How loud everybody is, and who has the floor.
    private func listen(_ group: GroupFloor, now: Instant) {
        group.voices.removeAll(keepingCapacity: true)
        for seat in group.seats where seat.audioTrack >= 0 {
            let isShut = transports[Int(seat.transport)].gates.dropReason(ofSent: .audio) != nil
            let speech = tracks[seat.audioTrack].pointee.speech
            let isSpeaking = !isShut && speech.loudness(at: now) > Limits.speakingLoudness
            if isSpeaking { group.activeAt = now }
            group.voices.append(
                SpeakerSelection.Candidate(
                    id: seat.audioTrack, score: isShut ? 0 : speech.score(at: now), isSpeaking: isSpeaking))
        }
        let before = group.floor.speaker
        _ = group.floor.choose(from: group.voices.span, now: now)
        guard let at = group.seats.firstIndex(where: { $0.audioTrack >= 0 && $0.audioTrack == group.floor.speaker })
        else { return }
        group.seats[at].spokeAt = now
        if group.floor.speaker != before, group.seats.count > 1 {
            news.append(.speaker(transports[Int(group.seats[at].transport)].handle, at: now))
        }
    }

    /// Pictures that come before those that do not; then who had the floor last; then who came first.
    private func rankPictures(_ group: GroupFloor, now: Instant) {
        group.pictures.removeAll(keepingCapacity: true)
        for at in group.seats.indices where group.seats[at].videoTrack >= 0 {
            group.seats[at].hasPicture = hasPicture(group.seats[at].videoTrack, now: now)
            var place = group.pictures.count
            while place > 0, outranks(group.seats[at], group.seats[group.pictures[place - 1]]) { place -= 1 }
            group.pictures.insert(at, at: place)
        }
    }

    private func outranks(_ one: GroupFloor.Seat, _ other: GroupFloor.Seat) -> Bool {
        if one.hasPicture != other.hasPicture { return one.hasPicture }
        return one.spokeAt > other.spokeAt
    }

    /// Something comes, on any of the track's streams, that may pass.
    private func hasPicture(_ track: Int32, now: Instant) -> Bool {
        let sender = transports + Int(tracks[track].pointee.transport)
        guard sender.pointee.gates.dropReason(ofSent: .video) == nil else { return false }
        var stream = track
        while stream >= 0, !comes(stream, now: now) { stream = tracks[stream].pointee.nextLayer }
        return stream >= 0
    }

    private func comes(_ stream: Int32, now: Instant) -> Bool {
        tracks[stream].pointee.currentSource >= 0
            && now - tracks[stream].pointee.lastArrival < Limits.pictureAbsence
    }

    /// Nobody hears itself.
    private func chooseVoices(for at: Int, in group: GroupFloor, now: Instant) -> Bool {
        guard group.seats[at].heard != nil else { return false }
        let own = group.seats[at].audioTrack
        group.others.removeAll(keepingCapacity: true)
        for voice in group.voices where voice.id != own { group.others.append(voice) }
        _ = group.seats[at].heard?.choose(from: group.others.span, now: now)
        var hasChanged = false
        for (slot, position) in zip(group.seats[at].audioSlots, 0...) {
            let track = group.seats[at].heard?.slots[position] ?? -1
            guard subscriptions[slot].pointee.track != track else { continue }
            put(track, into: slot, now: now)
            hasChanged = true
        }
        return hasChanged
    }

    private func choosePictures(for at: Int, in group: GroupFloor, now: Instant) -> Bool {
        guard group.seats[at].seen != nil else { return false }
        let own = group.seats[at].videoTrack
        group.ranking.removeAll(keepingCapacity: true)
        for seat in group.pictures where group.seats[seat].videoTrack != own {
            group.ranking.append(group.seats[seat].videoTrack)
        }
        group.pins.removeAll(keepingCapacity: true)
        for slot in group.seats[at].videoSlots {
            let pinned = track(pinnedIn: slot, group)
            group.pins.append(group.pins.contains(pinned) ? -1 : pinned)
        }
        _ = group.seats[at].seen?.choose(from: group.ranking.span, pins: group.pins.span, now: now)
        var hasChanged = false
        for (slot, position) in zip(group.seats[at].videoSlots, 0...) {
            if show(group.seats[at].seen?.slots[position] ?? -1, in: slot, now: now) { hasChanged = true }
        }
        return hasChanged
    }

    private func track(pinnedIn slot: Int32, _ group: GroupFloor) -> Int32 {
        let pinned = subscriptions[slot].pointee.pinned
        guard pinned.value != 0, let transport = transportByHandle[pinned] else { return -1 }
        return group.seats.first { $0.transport == transport }?.videoTrack ?? -1
    }

    // MARK: Carrying out

    private func put(_ track: Int32, into slot: Int32, atKeyFrame: Bool = false, now: Instant) {
        forgetNext(slot)
        unlink(slot)
        guard track >= 0 else { return }
        forEachSlot(of: subscriptions[slot].pointee.receiver) { other in
            // It moves: where it was, what waits there takes its place now.
            guard subscriptions[other].pointee.track == track else { return }
            put(subscriptions[other].pointee.nextTrack, into: other, now: now)
        }
        link(track, to: slot, atKeyFrame: atKeyFrame, now: now)
    }

    /// A slot that shows a picture goes on with it until the next one's key frame has come, on its first stream.
    /// - Returns: whether the slot's occupant changed now.
    private func show(_ track: Int32, in slot: Int32, now: Instant) -> Bool {
        let subscription = subscriptions[slot]
        let canWait =
            track >= 0 && comes(track, now: now) && hasPicture(track, now: now) && tracks[track].pointee.asksKeyFrames
        if subscription.pointee.nextTrack == track, track >= 0, canWait { return false }
        forgetNext(slot)
        guard subscription.pointee.track != track else { return false }
        if canWait, subscription.pointee.flow == .passing, subscription.pointee.packetsSent > 0 {
            subscription.pointee.nextTrack = track
            noteLosses(of: tracks[track])
            tracks[track].pointee.awaitingCount += 1
            askForKeyFrame(track, now: now)
            return false
        }
        put(track, into: slot, now: now)
        return true
    }

    /// The slot stays with what it shows.
    func forgetNext(_ slot: Int32) {
        let subscription = subscriptions[slot]
        guard subscription.pointee.nextTrack >= 0 else { return }
        tracks[subscription.pointee.nextTrack].pointee.awaitingCount -= 1
        subscription.pointee.nextTrack = -1
    }

    /// The key frame that the slot waited for begins.
    func switchToNext(_ slot: Int32, now: Instant) {
        put(subscriptions[slot].pointee.nextTrack, into: slot, atKeyFrame: true, now: now)
        let room = transports[Int(subscriptions[slot].pointee.receiver)].room
        guard let group = rooms[Int(room)]?.group else { return }
        tellSlots(of: group, now: now)
        if group.isTellingDue { roomTimers.setIfEarlier(room, to: now + Limits.choiceInterval) }
    }

    // MARK: Telling

    /// Each change becomes an event on disk: nobody makes many of them.
    private func tellSlots(of group: GroupFloor, now: Instant) {
        group.isTellingDue = false
        for at in group.seats.indices {
            let occupants = occupants(of: group.seats[at].transport)
            guard occupants != group.seats[at].told else { continue }
            guard group.seats[at].tellings.take(rate: Limits.slotNewsPerSecond, now: now) else {
                group.isTellingDue = true
                continue
            }
            group.seats[at].told = occupants
            news.append(.slots(transports[Int(group.seats[at].transport)].handle, occupants, at: now))
        }
    }

    /// In the order of the sections. Nothing for members of peer rooms.
    func occupants(of transport: Int32) -> [SlotOccupant] {
        guard rooms[Int(transports[Int(transport)].room)]?.group != nil else { return [] }
        var occupants: [SlotOccupant] = []
        forEachSlot(of: transport) { slot in
            let track = subscriptions[slot].pointee.track
            guard track >= 0 else { return }
            let sender = transports[Int(tracks[track].pointee.transport)].handle
            occupants.append(SlotOccupant(section: UInt8(subscriptions[slot].pointee.section), sender: sender))
        }
        return occupants.sorted { $0.section < $1.section }
    }

    func isSpeaker(_ transport: Int32) -> Bool {
        guard let group = rooms[Int(transports[Int(transport)].room)]?.group, group.floor.speaker >= 0 else {
            return false
        }
        return group.seats.contains { $0.transport == transport && $0.audioTrack == group.floor.speaker }
    }

    // MARK: Seats

    /// Whoever is joined has a seat.
    private func seat(_ members: [Int32], in group: GroupFloor) {
        group.seats.removeAll { seat in
            !members.contains(seat.transport) || !transports[Int(seat.transport)].flags.contains(.joined)
        }
        for member in members where transports[Int(member)].flags.contains(.joined) {
            if !group.seats.contains(where: { $0.transport == member }) { group.seats.append(makeSeat(member)) }
        }
    }

    private func makeSeat(_ transport: Int32) -> GroupFloor.Seat {
        var sent: [MediaKind: Int32] = [:]
        var track = transports[Int(transport)].firstTrack
        while track >= 0 {
            sent[tracks[track].pointee.kind] = track
            track = tracks[track].pointee.nextOfTransport
        }
        var slots: [MediaKind: [Int32]] = [:]
        // Slots are chained newest first.
        forEachSlot(of: transport) { slots[subscriptions[$0].pointee.kind, default: []].insert($0, at: 0) }
        let audio = slots[.audio] ?? []
        let video = slots[.video] ?? []
        return GroupFloor.Seat(
            transport: transport, audioTrack: sent[.audio] ?? -1, videoTrack: sent[.video] ?? -1, audioSlots: audio,
            videoSlots: video, heard: audio.isEmpty ? nil : SpeakerSelection(slotCount: audio.count),
            seen: video.isEmpty ? nil : VideoSlotSelection(slotCount: video.count))
    }

    // MARK: Wishes

    /// What a receiver wishes for its slots, as a whole.
    func setWishes(_ wishes: [SlotWish], of index: Int32, now: Instant) {
        forEachSlot(of: index) { slot in
            let subscription = subscriptions[slot]
            let wish = wishes.first { Int32($0.section) == subscription.pointee.section }
            subscription.pointee.wantedHeight = wish?.wantedHeight ?? 0
            subscription.pointee.pinned = wish?.pinned ?? ParticipantHandle(0)
        }
        rechoose(transports[Int(index)].room, now: now)
        chooseLayers(of: index, now: now)
    }
}
