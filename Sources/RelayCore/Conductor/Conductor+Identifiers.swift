import RTPCore

// Names that are drawn here. All random bits: nobody finds a room or session by counting (T75).

extension Conductor {
    func drawRoomID() -> RoomID {
        guard let id = RoomID("r_" + drawText()) else { preconditionFailure("a drawn room id has no legal form") }
        return id
    }

    func drawParticipantID() -> ParticipantID {
        guard let id = ParticipantID("p_" + drawText()) else {
            preconditionFailure("a drawn participant id has no legal form")
        }
        return id
    }

    func drawPromptID() -> PromptID {
        guard let id = PromptID("s_" + drawText()) else {
            preconditionFailure("a drawn prompt id has no legal form")
        }
        return id
    }

    func drawRecordingID() -> RecordingID {
        guard let id = RecordingID("rec_" + drawText()) else {
            preconditionFailure("a drawn recording id has no legal form")
        }
        return id
    }

    func drawRoomHandle() -> RoomHandle {
        while true {
            let handle = RoomHandle(random.next())
            if handle.value != 0, roomsByHandle[handle] == nil, shelf[handle] == nil { return handle }
        }
    }

    func drawParticipantHandle() -> ParticipantHandle {
        while true {
            let handle = ParticipantHandle(random.next())
            if handle.value != 0, roomsByParticipant[handle] == nil { return handle }
        }
    }

    /// 128 random bits as 22 base64url characters (RFC 4648 §5).
    private func drawText() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var bits = UInt128(random.next()) << 64 | UInt128(random.next())
        var text: [UInt8] = []
        for _ in 0..<22 {
            text.append(alphabet[Int(bits & 63)])
            bits >>= 6
        }
        return String(decoding: text, as: UTF8.self)
    }
}
