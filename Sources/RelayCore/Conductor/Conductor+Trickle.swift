import RTPCore

// RFC 9725 §4.3: candidates are not needed by an ICE-lite relay and ignored; a restart begins a new ICE
// generation, whose number is the session's ETag.

extension Conductor {
    func trickle(
        _ id: ParticipantID, in roomID: RoomID, ifMatch: String?, fragment: [UInt8], for principal: Principal
    ) throws(Problem) -> ControlReply {
        let room = try liveRoom(roomID, for: principal)
        let index = try session(id, in: room, for: principal)
        guard let ifMatch else {
            throw Problem(
                status: 428, code: "precondition-required",
                detail: "If-Match is missing: the session's ETag to trickle, * to restart ICE")
        }
        if ifMatch == "*" { return try restart(index, in: room, fragment: fragment) }
        let participant = room.record.participants[index]
        guard Self.entityTags(in: ifMatch).contains("\"\(participant.etag)\"") else {
            throw Problem(
                status: 412, code: "stale-etag",
                detail: "If-Match names another ICE generation; the session's is \"\(participant.etag)\"")
        }
        let trickled = try Negotiator.readFragment(fragment)
        if let ufrag = trickled.iceUfrag, ufrag != participant.transport.remoteICE.ufrag {
            throw Problem(
                status: 422, code: "sdp-restart-unasked",
                detail: "a=ice-ufrag is not the session's: new credentials need If-Match: *")
        }
        return .trickleIgnored
    }

    private func restart(
        _ index: Int, in room: ConductedRoom, fragment: [UInt8]
    ) throws(Problem) -> ControlReply {
        let participant = room.record.participants[index]
        guard let id = room.record.worker, let worker = workers[id], worker.isConnected,
            let endpoint = worker.endpoint
        else { throw overloaded("the session's media worker is not connected") }
        let restart = try Negotiator.restart(
            fragment: fragment, fingerprints: participant.transport.fingerprints,
            sections: participant.transport.sections, endpoint: endpoint, random: &random)
        room.record.participants[index].transport.localICE = restart.localICE
        room.record.participants[index].transport.remoteICE = restart.remoteICE
        room.record.participants[index].generation += 1
        command(.restartICE(participant.handle, local: restart.localICE, remote: restart.remoteICE), to: id)
        change(room)
        return .restarted(fragment: restart.fragment, etag: room.record.participants[index].etag)
    }

    /// The members of an `If-Match` list (RFC 9110 §13.1.1), quotes kept; weak tags stay weak and so match
    /// nothing.
    private static func entityTags(in header: String) -> [String] {
        header.utf8.split(separator: UInt8(ascii: ",")).map { part in
            let isSpace: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            let trimmed = part.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
            return String(decoding: Array(trimmed), as: UTF8.self)
        }
    }
}
