import RTPCore

// What workers tell: media facts. News of a process that is gone, or of somebody who is not here (any more),
// change nothing; a transport that nobody here knows is removed.

extension Conductor {
    func receive(_ news: WorkerNews, from workerID: WorkerID) {
        guard workers[workerID] != nil, !takeFigures(news) else { return }
        if case .recorded(let report, let at) = news { return noteRecorded(report, by: workerID, at: at) }
        guard let handle = news.participant else { return }
        guard let room = roomsByParticipant[handle], room.record.worker == workerID,
            let index = room.record.index(of: handle)
        else {
            if case .ended = news { return }
            return command(.remove(handle), to: workerID)
        }
        // A worker's word may be old, not ahead of the clock.
        let time = min(max(news.time, Instant(nanoseconds: 0)), now)
        switch news {
        case .prepared:
            notePreparation(ofParticipantAt: index, in: room, at: time)
            apply(.keysInstalled, to: handle, in: room, at: time, transportIsGone: false)
        case .joined:
            apply(.gateOpened, to: handle, in: room, at: time, transportIsGone: false)
        case .ended(_, let end, _, let statistics):
            room.record.participants[index].statistics = statistics
            apply(.transportEnded(end), to: handle, in: room, at: time, transportIsGone: true)
        case .interrupted:
            apply(.interrupted, to: handle, in: room, at: time, transportIsGone: false)
        case .recovered:
            apply(.recovered, to: handle, in: room, at: time, transportIsGone: false)
        case .pathChanged:
            emit(.participantPathChanged, in: room, of: room.record.participants[index], at: time)
        case .media(_, let kind, _):
            if room.record.participants[index].lifecycle.holdsSeat { heard(in: room, at: time) }
            noteMedia(kind, ofParticipantAt: index, in: room, at: time)
            let name = kind == .audio ? "audio" : "video"
            emit(
                .participantMedia, in: room, of: room.record.participants[index], reason: nil,
                data: [JSONValue.Field("kind", .string(name))], at: time)
        case .statistics(_, let statistics, _):
            let before = room.record.participants[index].statistics.packetsReceived
            noteStatistics(statistics, ofParticipantAt: index, in: room, at: time)
            guard room.record.participants[index].lifecycle.holdsSeat else { break }
            if statistics.packetsReceived > before { heard(in: room, at: time) } else { unheard(in: room, at: time) }
        case .slots(_, let occupants, _): noteSlots(occupants, ofParticipantAt: index, in: room, at: time)
        case .speaker: noteSpeaker(handle, in: room, at: time)
        case .played(_, let prompt, let end, _): notePlayed(prompt, end, by: handle, in: room)
        case .recorded, .removed: preconditionFailure("reports and last figures are taken before")
        }
    }
}

extension WorkerNews {
    /// Whom it is about; nil: a room.
    public var participant: ParticipantHandle? {
        switch self {
        case .recorded: nil
        case .prepared(let handle, _), .joined(let handle, _), .ended(let handle, _, _, _),
            .interrupted(let handle, _), .recovered(let handle, _), .pathChanged(let handle, _),
            .media(let handle, _, _), .statistics(let handle, _, _), .slots(let handle, _, _),
            .speaker(let handle, _), .played(let handle, _, _, _), .removed(let handle, _, _):
            handle
        }
    }

    /// When it happened.
    public var time: Instant {
        switch self {
        case .prepared(_, let at), .joined(_, let at), .ended(_, _, let at, _), .interrupted(_, let at),
            .recovered(_, let at), .pathChanged(_, let at), .media(_, _, let at), .statistics(_, _, let at),
            .slots(_, _, let at), .speaker(_, let at), .played(_, _, _, let at), .recorded(_, let at),
            .removed(_, _, let at):
            at
        }
    }
}
