import RTPCore

/// A sound by the name that the API gives it.
public struct SoundName: Hashable, Sendable, Codable {
    public enum Kind: String, Hashable, Sendable, Codable {
        /// Made by the relay.
        case tone
        /// Read from the operator's folder.
        case file
    }
    public var kind: Kind
    public var text: String
    public init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }
}

/// Every sound that this node can play, by name. Owns no file and no encoder.
public struct SoundLibrary: Hashable, Sendable {
    public struct Entry: Hashable, Sendable {
        public var sound: Sound
        /// Between two times, unless a prompt says otherwise: the silence of a cadence.
        public var pause: Interval
        public init(_ sound: Sound, pause: Interval = .zero) {
            self.sound = sound
            self.pause = pause
        }
    }
    private var entries: [SoundName: Entry] = [:]

    public init() {}

    public var count: Int { entries.count }

    public subscript(name: SoundName) -> Entry? {
        get { entries[name] }
        set { entries[name] = newValue }
    }

    /// In alphabetical order.
    public func names(of kind: SoundName.Kind) -> [String] {
        entries.keys.filter { $0.kind == kind }.map(\.text).sorted()
    }
}
