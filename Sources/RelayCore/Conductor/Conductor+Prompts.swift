import RTPCore

// Prompts: what the server lets a room hear. Here is decided who hears what, and told; workers play. Each participant hears
// one prompt at a time, the latest; the room's end ends all without a word. A prompt that loops waits for whoever comes; one that does not is over when the last
// listener has heard it.

extension Conductor {
    /// Prompts name these sounds from now on; one that is being played goes on as the worker has it.
    public func use(_ library: SoundLibrary) { sounds = library }

    // MARK: What the server asks for

    func playPrompt(
        _ specification: PromptSpecification, in roomID: RoomID, for principal: Principal
    ) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try liveRoom(roomID, for: principal)
        try checkSound(specification.sound, field: specification.sound.kind.rawValue)
        let (count, limit) = (room.record.prompts.count, ConductorConfiguration.promptsPerRoom)
        guard count < limit else {
            throw Problem(
                status: 409, code: "too-many-prompts",
                detail: "\(count) prompts are played in \(roomID); the limit is \(limit)")
        }
        guard specification.loops || room.record.participants.contains(where: { $0.mayHear(specification) }) else {
            throw Problem(
                status: 409, code: "nobody-listens",
                detail: specification.to.map { "none of \($0.joined(separator: ", ")) is in \(roomID) with audio" }
                    ?? "nobody is joined in \(roomID) with audio",
                members: specification.to == nil ? [] : [JSONValue.Field("field", .string("to"))])
        }
        let id = begin(specification, in: room)
        guard let prompt = room.record.prompts.first(where: { $0.id == id }) else {
            preconditionFailure("a prompt that has just begun is not there")
        }
        return .prompt(room.record.view(of: prompt))
    }

    /// One that has ended already is stopped all the same.
    func stopPrompt(_ id: PromptID, in roomID: RoomID, for principal: Principal) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try room(roomID, for: principal)
        if room.record.endedPrompts.contains(id) { return .done }
        guard room.record.prompts.contains(where: { $0.id == id }) else {
            throw Problem(status: 404, code: "no-such-prompt", detail: "no prompt \(id) is played in \(roomID)")
        }
        endPrompts(in: room, for: .stopped) { $0.id == id }
        return .done
    }

    func checkSound(_ name: SoundName, field: String) throws(Problem) {
        guard sounds[name] == nil else { return }
        let known = sounds.names(of: name.kind)
        throw Problem(
            status: 422, code: "unknown-sound",
            detail: "\(field) \(name.text) is not known here; known: "
                + (known.isEmpty ? "none" : known.joined(separator: ", ")),
            members: [JSONValue.Field("field", .string(field))])
    }

    /// The beep before a room's end by max duration, where it was wished for.
    func playWarning(in room: ConductedRoom) {
        guard let name = room.record.specification.warningTone.map({ SoundName(.tone, $0) }), sounds[name] != nil,
            room.record.prompts.count < ConductorConfiguration.promptsPerRoom,
            room.record.participants.contains(where: { $0.mayHear(PromptSpecification(name)) })
        else { return }
        begin(PromptSpecification(name), in: room)
    }

    // MARK: Who hears what

    @discardableResult
    private func begin(_ specification: PromptSpecification, in room: ConductedRoom) -> PromptID {
        let prompt = PromptRecord(
            id: drawPromptID(), handle: PromptHandle(random.next() | 1), specification: specification,
            startedAtMs: wallClockMs, endsWithAnswer: room.record.ring?.stage == .ringing)
        let listeners = room.record.participants.filter { $0.mayHear(specification) }.map(\.handle)
        let replaced = silence(listeners, in: room)
        endPrompts(in: room, for: .replaced) { replaced.contains($0.id) }
        room.record.prompts.append(prompt)
        emit(
            .promptStarted, in: room, of: nil, reason: nil, data: PromptView.fields(of: specification, prompt.id),
            at: now)
        for listener in listeners { play(at: room.record.prompts.count - 1, to: listener, in: room) }
        return prompt.id
    }

    /// Whoever is in now hears the prompts that loop, as far as they are for it.
    func playLoops(to handle: ParticipantHandle, in room: ConductedRoom) {
        guard !room.record.prompts.isEmpty, let index = room.record.index(of: handle) else { return }
        let participant = room.record.participants[index]
        let isListening = room.record.prompts.contains { $0.listeners.contains(handle) }
        guard !isListening,
            let at = room.record.prompts.lastIndex(where: {
                $0.specification.loops && participant.mayHear($0.specification)
            })
        else { return }
        play(at: at, to: handle, in: room)
        change(room)
    }

    private func play(at position: Int, to listener: ParticipantHandle, in room: ConductedRoom) {
        room.record.prompts[position].listeners.append(listener)
        order(room.record.prompts[position], to: listener, in: room)
    }

    /// Tells the worker; the sound itself goes before the first order that needs it.
    private func order(_ prompt: PromptRecord, to listener: ParticipantHandle, in room: ConductedRoom) {
        guard let entry = sounds[prompt.specification.sound], let id = room.record.worker, let worker = workers[id],
            worker.isConnected
        else { return }
        if worker.sounds.insert(entry.sound.id).inserted {
            let parts = entry.sound.parts
            for (position, part) in parts.enumerated() {
                command(.sound(entry.sound.id, packets: part, isLast: position == parts.count - 1), to: id)
            }
        }
        let order = PromptOrder(
            prompt: prompt.handle, sound: entry.sound.id, times: prompt.specification.times,
            pause: prompt.specification.pause ?? entry.pause)
        command(.play(listener, order), to: id)
    }

    /// They hear something else now. Returns the prompts that nobody hears any more for that.
    @discardableResult
    private func silence(_ listeners: [ParticipantHandle], in room: ConductedRoom) -> [PromptID] {
        var silent: [PromptID] = []
        for position in room.record.prompts.indices {
            let wasHeard = !room.record.prompts[position].listeners.isEmpty
            room.record.prompts[position].listeners.removeAll { listeners.contains($0) }
            if wasHeard, room.record.prompts[position].listeners.isEmpty {
                silent.append(room.record.prompts[position].id)
            }
        }
        return silent
    }

    // MARK: Ends

    /// Ends the prompts for which `isOver` holds.
    func endPrompts(in room: ConductedRoom, for reason: PromptEndReason, where isOver: (PromptRecord) -> Bool) {
        let over = room.record.prompts.filter(isOver)
        guard !over.isEmpty else { return }
        room.record.prompts.removeAll { prompt in over.contains { $0.id == prompt.id } }
        for prompt in over {
            for listener in prompt.listeners { command(.stopPlaying(listener, prompt.handle), to: room.record.worker) }
            room.record.endedPrompts.append(prompt.id)
            emit(
                .promptEnded, in: room, of: nil, reason: reason.rawValue,
                data: PromptView.fields(of: prompt.specification, prompt.id), at: now)
        }
        let surplus = room.record.endedPrompts.count - ConductorConfiguration.endedPromptsKept
        if surplus > 0 { room.record.endedPrompts.removeFirst(surplus) }
        change(room)
    }

    /// A worker says that a listener has heard it, or cannot.
    func notePlayed(_ handle: PromptHandle, _ end: PromptEnd, by listener: ParticipantHandle, in room: ConductedRoom) {
        guard let position = room.record.prompts.firstIndex(where: { $0.handle == handle }),
            room.record.prompts[position].listeners.contains(listener)
        else { return }
        room.record.prompts[position].listeners.removeAll { $0 == listener }
        if end == .finished { room.record.prompts[position].wasFinished = true }
        change(room)
        let prompt = room.record.prompts[position]
        guard prompt.listeners.isEmpty, !prompt.specification.loops else { return }
        endPrompts(in: room, for: prompt.wasFinished ? .finished : .failed) { $0.handle == handle }
    }

    /// One who is out hears nothing; the next `settlePrompts` draws the conclusion.
    func forgetListener(_ handle: ParticipantHandle, in room: ConductedRoom) { silence([handle], in: room) }

    /// Somebody left: what only it heard is over.
    func settlePrompts(in room: ConductedRoom) {
        guard room.record.status != .ended, !room.record.prompts.isEmpty else { return }
        endPrompts(in: room, for: .left) { $0.listeners.isEmpty && !$0.specification.loops && !$0.wasFinished }
        endPrompts(in: room, for: .finished) { $0.listeners.isEmpty && !$0.specification.loops }
    }

    /// The worker's snapshot against what should be heard: an order that never arrived goes out now.
    func comparePrompts(of snapshot: TransportSnapshot, in room: ConductedRoom) {
        let listener = snapshot.participant
        let heard = room.record.prompts.first { $0.listeners.contains(listener) }
        guard snapshot.prompt != heard?.handle else { return }
        if let heard {
            guard sounds[heard.specification.sound] == nil else { return order(heard, to: listener, in: room) }
            // The operator took the file away while control was down.
            if let playing = snapshot.prompt { command(.stopPlaying(listener, playing), to: room.record.worker) }
            endPrompts(in: room, for: .failed) { $0.id == heard.id }
        } else if let playing = snapshot.prompt {
            command(.stopPlaying(listener, playing), to: room.record.worker)
        }
    }
}

extension ParticipantRecord {
    /// Whether a prompt reaches it: joined, or prepared and named; with audio to hear it on.
    fileprivate func mayHear(_ prompt: PromptSpecification) -> Bool {
        let isNamed = prompt.to?.contains(uid)
        guard lifecycle.state == .joined || (lifecycle.state == .prepared && isNamed == true), isNamed != false else {
            return false
        }
        return transport.sections.contains { $0.kind == .audio && $0.clientReceives }
    }
}

extension RoomRecord {
    func view(of prompt: PromptRecord) -> PromptView {
        PromptView(
            id: prompt.id, roomID: id, specification: prompt.specification, startedAtMs: prompt.startedAtMs,
            listeners: prompt.listeners.compactMap { index(of: $0) }.map { participants[$0].id })
    }
}
