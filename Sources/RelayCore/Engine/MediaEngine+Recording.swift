import RTPCore

// Recording: the packets of a recorded room are copied for the recorder as they are forwarded, whoever gets them. What is recorded is
// what the room may hear and see: of who is joined, past the gates of own and server's mute, hold and closed video. A track that is not
// recorded pays one test of a flag.

extension MediaEngine {
    /// The room is recorded from now on. A room that is not here is not.
    func record(_ order: RecordingOrder, now: Instant) {
        guard let index = roomByHandle[order.room], rooms[Int(index)]?.recording == nil else { return }
        rooms[Int(index)]?.recording = RecordedRoom(
            recording: order.recording, audio: order.audio, video: order.video)
        for member in rooms[Int(index)]?.members ?? [] { updateRecording(of: member, now: now) }
    }

    func stopRecording(_ recording: RecordingHandle, now: Instant) {
        for index in rooms.indices where rooms[index]?.recording?.recording == recording {
            rooms[index]?.recording = nil
            for member in rooms[index]?.members ?? [] { updateRecording(of: member, now: now) }
        }
    }

    /// The recorder cannot go on without a key frame of this m-line.
    public func requestKeyFrame(of participant: ParticipantHandle, section: UInt8, now: Instant) {
        guard let index = transportByHandle[participant] else { return }
        forEachStream(of: index) { stream in
            let track = tracks[stream]
            guard track.pointee.isRecorded, track.pointee.section == Int32(section), track.pointee.asksKeyFrames else {
                return
            }
            track.pointee.keyFrames.request(now: now, urgent: false)
            wake(index, forRepairAt: track.pointee.keyFrames.deadline)
        }
    }

    /// Sets which of the transport's tracks are recorded, after anything that decides it has changed.
    func updateRecording(of index: Int32, now: Instant) {
        let transport = transports + Int(index)
        let recorded = rooms[Int(transport.pointee.room)]?.recording
        forEachStream(of: index) { stream in
            let track = tracks[stream]
            let kind = track.pointee.kind
            let isRecorded =
                recorded.map { kind == .audio ? $0.audio : $0.video } ?? false
                && transport.pointee.flags.contains(.joined) && transport.pointee.gates.dropReason(ofSent: kind) == nil
            guard track.pointee.isRecorded != isRecorded else { return }
            if isRecorded, kind == .video { noteLosses(of: track) }
            track.pointee.isRecorded = isRecorded
            guard isRecorded else { return }
            if track.pointee.asksKeyFrames { askForKeyFrame(stream, now: now) }
            let source = Int(track.pointee.currentSource)
            guard source >= 0, sourceAt(source).pointee.hasReport else { return }
            // The next one may be seconds away.
            recordReport(
                sourceAt(source).pointee.reportNTP, sourceAt(source).pointee.reportTimestamp, of: source, on: index,
                now: now)
        }
    }

    /// Every track of the transport, streams of simulcast one by one.
    private func forEachStream(of index: Int32, _ body: (Int32) -> Void) {
        var track = transports[Int(index)].firstTrack
        while track >= 0 {
            var stream = track
            while stream >= 0 {
                let next = tracks[stream].pointee.nextLayer
                body(stream)
                stream = next
            }
            track = tracks[track].pointee.nextOfTransport
        }
    }

    // MARK: What is recorded

    @inline(never) func record(
        timestamp: UInt32, marker: Bool, payload: UnsafePointer<UInt8>, payloadByteCount: Int, index: UInt64,
        source: Int32, track: UnsafeMutablePointer<Track>, now: Instant
    ) {
        var entry = entry(.packet, of: track, ssrc: sourceSSRCs[Int(source)], now: now)
        entry.index = index
        entry.timestamp = timestamp
        entry.marker = marker
        entry.byteCount = UInt16(clamping: payloadByteCount)
        recorded.append(entry, payload, byteCount: Int(entry.byteCount))
    }

    /// What a sender report says of a source, where its track is recorded.
    func recordReport(_ ntp: NTPTime, _ timestamp: UInt32, of source: Int, on transport: Int32, now: Instant) {
        let track = tracks[sourceAt(source).pointee.track]
        guard track.pointee.isRecorded, sourceAt(source).pointee.role == .media else { return }
        var entry = entry(.report, of: track, ssrc: sourceSSRCs[source], now: now)
        entry.timestamp = timestamp
        entry.ntp = ntp
        entry.ourNTP = transports[Int(transport)].clock.ours(ntp)
        recorded.append(entry, nil, byteCount: 0)
    }

    private func entry(
        _ kind: RecordedEntry.Kind, of track: UnsafeMutablePointer<Track>, ssrc: UInt32, now: Instant
    ) -> RecordedEntry {
        let transport = transports + Int(track.pointee.transport)
        guard let room = rooms[Int(transport.pointee.room)]?.recording else {
            preconditionFailure("a recorded track in a room that is not recorded")
        }
        return RecordedEntry(
            recording: room.recording, participant: transport.pointee.handle, arrival: now, index: 0,
            ntp: NTPTime(rawValue: 0), ourNTP: NTPTime(rawValue: 0), timestamp: 0, ssrc: ssrc, byteCount: 0,
            section: UInt8(truncatingIfNeeded: track.pointee.section), kind: kind, codec: track.pointee.codec,
            marker: false)
    }
}

/// What is recorded of a room on this worker.
struct RecordedRoom {
    var recording: RecordingHandle
    var audio: Bool
    var video: Bool
}
