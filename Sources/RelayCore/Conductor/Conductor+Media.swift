import RTPCore

// Media within a call (CALLS.md): own mute and hold, the server's mute and rights, an audio call that becomes a video call.
// What passes is said to the worker in the deciding turn, as the whole of a participant's gates.

extension Conductor {
    func changeMedia(
        of id: ParticipantID, in roomID: RoomID, to change: MediaChange, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try liveRoom(roomID, for: principal)
        let index = try session(id, in: room, for: principal)
        var media = room.record.participants[index].media
        media.apply(change)
        setMedia(media, ofParticipantAt: index, in: room, by: .itself)
        return .participant(room.record.view(ofParticipantAt: index))
    }

    func changeMedia(
        of id: ParticipantID, in roomID: RoomID, byServer change: ServerMediaChange, for principal: Principal
    ) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try liveRoom(roomID, for: principal)
        let index = try session(id, in: room, for: principal)
        var media = room.record.participants[index].media
        media.apply(change)
        setMedia(media, ofParticipantAt: index, in: room, by: .server)
        return .participant(room.record.view(ofParticipantAt: index))
    }

    private enum MediaAuthor: String { case itself = "self", server }

    private func setMedia(
        _ media: ParticipantMedia, ofParticipantAt index: Int, in room: ConductedRoom, by author: MediaAuthor
    ) {
        let before = room.record.participants[index].media
        guard media != before else { return }
        room.record.participants[index].media = media
        updateGates(ofParticipantAt: index, in: room)
        change(room)
        if told(media) != told(before) { tellMedia(ofParticipantAt: index, in: room, by: author) }
    }

    private func tellMedia(ofParticipantAt index: Int, in room: ConductedRoom, by author: MediaAuthor) {
        let participant = room.record.participants[index]
        emit(
            .participantChanged, in: room, of: participant, reason: nil,
            data: told(participant.media) + [JSONValue.Field("by", .string(author.rawValue))], at: now)
    }

    private func told(_ media: ParticipantMedia) -> [JSONValue.Field] {
        var fields = [
            JSONValue.Field("audio", .string(media.state(of: .audio).rawValue)),
            JSONValue.Field("video", .string(media.state(of: .video).rawValue)),
            JSONValue.Field("held", .bool(media.isHeld)),
            JSONValue.Field("mutedByServer", .array(media.mutedByServer.map { .string($0.name) })),
        ]
        if let grants = media.grants { fields.append(JSONValue.Field("grants", grants.json)) }
        return fields
    }

    /// The worker hears what is shut now, if that is another thing than before.
    private func updateGates(ofParticipantAt index: Int, in room: ConductedRoom) {
        let participant = room.record.participants[index]
        let gates = participant.media.gates(in: room.record.callMedia.media)
        guard participant.transport.gates != gates else { return }
        room.record.participants[index].transport.gates = gates
        command(.gates(participant.handle, gates), to: room.record.worker)
    }

    // MARK: Who comes in another's place

    /// The same device preparing anew goes on as it was; another device of the user takes over the server's word only.
    func inheritedMedia(
        of identity: ParticipantIdentity, replacing predecessor: ParticipantRecord?, in room: ConductedRoom
    ) -> ParticipantMedia {
        if let predecessor { return predecessor.media }
        let other = room.record.participants.last { $0.uid == identity.uid }
        return other?.media.serverPart ?? ParticipantMedia()
    }

    /// A newcomer whose media is not on from the start: followers know nobody's state but by events.
    func tellInheritedMedia(ofParticipantAt index: Int, in room: ConductedRoom) {
        let media = room.record.participants[index].media
        guard media != ParticipantMedia() else { return }
        tellMedia(ofParticipantAt: index, in: room, by: media.serverPart == media ? .server : .itself)
    }

    /// The right to end the call for everybody: the server's latest word, else the token's.
    func mayEndForAll(_ identity: ParticipantIdentity, in room: ConductedRoom) -> Bool {
        let participant = room.record.participants.first { $0.uid == identity.uid && $0.device == identity.device }
        return participant?.media.mayEnd ?? identity.grants.end
    }

    // MARK: From audio to video

    func video(
        _ word: VideoWord, in roomID: RoomID, uid given: String?, for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try liveRoom(roomID, for: principal)
        let actor = try joinedParticipant(given, in: room, for: principal)
        var others = joinedUsers(of: room)
        others.remove(actor.uid)
        var call = room.record.callMedia
        let effect: CallMedia.Effect
        do throws(CallMedia.NoRequest) {
            effect = try call.receive(word, from: actor.uid, actor.device, others: others)
        } catch {
            throw Problem(
                status: 409, code: "no-request",
                detail: "no other user's request for video waits for an answer in \(roomID)",
                members: [JSONValue.Field("media", .string(call.media.rawValue))])
        }
        carryOut(effect, leaving: call, in: room, by: actor)
        return .room(view(of: room))
    }

    /// A user left the room; with it perhaps a wish, or the last one who had not declined it.
    func noteMediaLeave(of participant: ParticipantRecord, in room: ConductedRoom) {
        guard room.record.status != .ended, room.record.callMedia.request != nil,
            !room.record.participants.contains(where: { $0.uid == participant.uid && $0.lifecycle.claimsSeat })
        else { return }
        var call = room.record.callMedia
        let effect = call.left(participant.uid, joined: joinedUsers(of: room))
        carryOut(effect, leaving: call, in: room, by: participant)
    }

    private func carryOut(
        _ effect: CallMedia.Effect, leaving call: CallMedia, in room: ConductedRoom, by participant: ParticipantRecord
    ) {
        guard call != room.record.callMedia else { return }
        room.record.callMedia = call
        change(room)
        let reason: String
        switch effect {
        case .nothing: return
        case .requested:
            let data = [JSONValue.Field("video", .bool(true))]
            return emit(.mediaRequested, in: room, of: participant, reason: nil, data: data, at: now)
        case .accepted: reason = "accepted"
        case .declined: reason = "declined"
        case .withdrawn: reason = "withdrawn"
        }
        for index in room.record.participants.indices { updateGates(ofParticipantAt: index, in: room) }
        emit(
            .mediaChanged, in: room, of: participant, reason: reason,
            data: [JSONValue.Field("video", .bool(call.media == .video))], at: now)
    }

    private func joinedUsers(of room: ConductedRoom) -> Set<String> {
        Set(room.record.participants.filter { $0.lifecycle.state == .joined }.map(\.uid))
    }

    private func joinedParticipant(
        _ given: String?, in room: ConductedRoom, for principal: Principal
    ) throws(Problem) -> ParticipantRecord {
        let uid: String
        var device: String?
        switch principal {
        case .participant(let identity): (uid, device) = (identity.uid, identity.device)
        case .server:
            guard let given else {
                throw Problem(
                    status: 400, code: "invalid-field", detail: "the server names the uid that it speaks for")
            }
            uid = given
        }
        let found = room.record.participants.first {
            $0.uid == uid && $0.lifecycle.state == .joined && (device == nil || $0.device == device)
        }
        guard let found else {
            throw Problem(
                status: 403, code: "forbidden", detail: "\(uid) is not joined in \(room.record.id) with this device")
        }
        return found
    }
}

extension MediaKind {
    /// The API's word.
    public var name: String { self == .audio ? "audio" : "video" }
}
