import RTPCore

/// The sounds that a worker can play, each once however many hear it. Owns their bytes, bounded in number and size: where
/// there is no room, sounds that nobody hears go. Refuses what is no Opus. Sounds come in parts, one after the other.
final class SoundStore {
    static let soundCount = 256
    static let byteCount = 24 << 20

    /// One sound: packets behind each other in one block.
    struct Entry {
        let id: SoundID
        let bytes: UnsafeMutablePointer<UInt8>
        /// Where each packet ends; the first begins at 0.
        let ends: UnsafeMutablePointer<UInt32>
        /// What each packet lasts, in ticks of 48 kHz.
        let ticks: UnsafeMutablePointer<UInt16>
        let packetCount: Int
        let byteCount: Int
        /// Who is playing it.
        var players = 0
    }

    private var entries: [Entry?] = []
    /// What has come of a sound whose last part has not.
    private var pending: (id: SoundID, packets: [[UInt8]], byteCount: Int)?
    private(set) var storedByteCount = 0

    deinit {
        for case let entry? in entries { free(entry) }
    }

    /// One part of a sound. Parts of another one that did not end are forgotten.
    func receive(_ id: SoundID, packets: [[UInt8]], isLast: Bool) {
        if pending?.id != id { pending = (id, [], 0) }
        pending?.packets += packets
        pending?.byteCount += packets.reduce(0) { $0 + $1.count }
        guard let whole = pending, whole.byteCount <= Sound.byteCount, whole.packets.count <= Sound.packetCount else {
            pending = nil
            return
        }
        guard isLast else { return }
        pending = nil
        guard index(of: id) == nil, let sound = Sound(packets: whole.packets), sound.id == id else { return }
        insert(sound)
    }

    /// The index of a sound for `begin`; nil where it is not here.
    func index(of id: SoundID) -> Int? { entries.firstIndex { $0?.id == id } }

    func begin(_ index: Int) { entries[index]?.players += 1 }
    func end(_ index: Int) { entries[index]?.players -= 1 }

    /// A sound that is being played.
    subscript(index: Int) -> Entry {
        guard let entry = entries[index] else { preconditionFailure("a sound that is played was forgotten") }
        return entry
    }

    private func insert(_ sound: Sound) {
        let byteCount = sound.packets.reduce(0) { $0 + $1.count }
        guard makeRoom(for: byteCount) else { return }
        let count = sound.packets.count
        let entry = Entry(
            id: sound.id, bytes: .allocate(capacity: byteCount), ends: .allocate(capacity: count),
            ticks: .allocate(capacity: count), packetCount: count, byteCount: byteCount)
        var end = 0
        for (position, packet) in sound.packets.enumerated() {
            packet.withUnsafeBufferPointer { bytes in
                if let start = bytes.baseAddress { (entry.bytes + end).initialize(from: start, count: packet.count) }
            }
            end += packet.count
            (entry.ends + position).initialize(to: UInt32(end))
            (entry.ticks + position).initialize(to: UInt16(OpusTOC(packet.span)?.timestampUnits ?? 960))
        }
        storedByteCount += byteCount
        if let free = entries.firstIndex(where: { $0 == nil }) {
            entries[free] = entry
        } else {
            entries.append(entry)
        }
    }

    private func makeRoom(for byteCount: Int) -> Bool {
        func isFull() -> Bool {
            storedByteCount + byteCount > Self.byteCount || entries.count(where: { $0 != nil }) >= Self.soundCount
        }
        for index in entries.indices where isFull() {
            guard let entry = entries[index], entry.players == 0 else { continue }
            free(entry)
            storedByteCount -= entry.byteCount
            entries[index] = nil
        }
        return !isFull()
    }

    private func free(_ entry: Entry) {
        entry.bytes.deallocate()
        entry.ends.deallocate()
        entry.ticks.deallocate()
    }
}
