import RTPCore

// How loud everybody in a group room is: by what the packets say, else by a probe of what they carry.

extension MediaEngine {
    /// One audio packet of a group room.
    @inline(__always) func noteLevel(
        _ track: UnsafeMutablePointer<Track>, _ packet: Span<UInt8>, payload: UnsafeMutablePointer<UInt8>,
        byteCount: Int, room: Int32, now: Instant
    ) {
        guard track.pointee.levels == .header else {
            return probeLevel(track, payload, byteCount: byteCount, room: room, now: now)
        }
        var i = 0
        while i < elementCount {
            let element = elements[i]
            if element.id == track.pointee.levelID,
                let level = AudioLevel(packet, offset: Int(element.offset), byteCount: Int(element.byteCount))
            {
                track.pointee.levelsMissed = 0
                // A sender without voice detection never says it.
                if level.isVoice { track.pointee.marksVoice = true }
                let isVoice = level.isVoice || !track.pointee.marksVoice
                return hear(track, level: level.attenuation, isVoice: isVoice, room: room, now: now)
            }
            i &+= 1
        }
        // Agreed and not done: after a second it is heard for itself.
        track.pointee.levelsMissed &+= 1
        if track.pointee.levelsMissed >= 50 { track.pointee.levels = .probe }
    }

    @inline(__always) private func hear(
        _ track: UnsafeMutablePointer<Track>, level: UInt8, isVoice: Bool, room: Int32, now: Instant
    ) {
        track.pointee.speech.received(level: level, isVoice: isVoice, at: now)
        if isVoice, level < SpeechActivity.silence { roomTimers.setIfEarlier(room, to: now + Limits.choiceInterval) }
    }

    /// Bounded by the number of decoders and of packets decoded in a second; above it the last level stands.
    @inline(never) private func probeLevel(
        _ track: UnsafeMutablePointer<Track>, _ payload: UnsafeMutablePointer<UInt8>, byteCount: Int, room: Int32,
        now: Instant
    ) {
        if track.pointee.probe == nil {
            guard probeCount < Limits.levelProbes, let probe = LevelProbe.create() else { return }
            track.pointee.probe = probe
            probeCount += 1
        }
        guard byteCount > 0 else { return }
        let isDue = track.pointee.probe?.isDue == true
        if isDue, !probeBudget.take(rate: Int64(Limits.probedPacketsPerSecond), now: now) {
            track.pointee.probe?.skip()
        } else {
            track.pointee.probe?.receive(payload, byteCount: byteCount, samples: probeSamples)
        }
        guard let level = track.pointee.probe?.level else { return }
        hear(track, level: level, isVoice: true, room: room, now: now)
    }

    func endProbe(of track: Int32) {
        guard let probe = tracks[track].pointee.probe else { return }
        probe.destroy()
        tracks[track].pointee.probe = nil
        probeCount -= 1
    }
}
