import RTPCore
import RelayCore

extension Conductor {
    /// One that goes on from what the journal holds, with the answers of this API. `ended`: of the same journal.
    package convenience init(
        from contents: JournalContents, ended: EndedRooms, configuration: ConductorConfiguration, random: RandomSource,
        isSameBoot: Bool, sounds: SoundLibrary, log: Log
    ) {
        let restored = RestoredRooms(contents, log: log)
        self.init(
            configuration: configuration, random: random, restoring: restored.rooms,
            idempotency: contents.keys.compactMap { RecordCoding.decodeKey($0.record, log: log) },
            nextSeq: contents.lastSeq + 1, isSameBoot: isSameBoot, knownEnded: { ended.outcome(of: $0) },
            shelved: restored.shelved, unshelve: { ended.record(of: $0) }, sounds: sounds,
            drain: contents.drain.flatMap { RecordCoding.decodeDrain($0, log: log) },
            answerText: { Answers.text(of: $0, to: $1) })
    }
}
