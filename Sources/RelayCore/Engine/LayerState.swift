import RTPCore

// What the engine knows where streams and temporal layers are chosen among: of each stream of a track, and of each slot. Both
// are made with a track or a slot's first link, never on a packet's way. A track without has one stream, forwarded as it is.

/// One stream of a track: one of a simulcast's, or the only one in a group.
struct LayerState {
    /// How the payload numbers its layers; nil: it does not, the dependency descriptor may.
    let codec: LayeredCodec?
    /// The sender's element id of the dependency descriptor; 0: not negotiated.
    let dependencyID: UInt8
    /// The stream id's place in the offer.
    let position: Int
    var structure: DependencyStructure?

    /// The packet at hand.
    var packet = PacketLayers()
    var fields = PictureFields()
    var descriptor: DependencyDescriptor?
    /// The packet at hand is the newest of its source, so that everything after it is still to come.
    var isNewest = false

    /// The source that the following belongs to.
    var source: Int32 = -1
    var newestIndex: UInt64 = 0
    var newestTimestamp: UInt32 = 0
    /// Extended picture number of the newest picture; starts high enough that late ones stay above 0.
    var newestPicture: Int64 = 0
    var rate = LayerRate()
    /// The most it needed lately, bits per second: falls by half in half a minute.
    var peakRate = 0
    /// Of the newest key frame, pixels; 0: not known.
    var height = 0
    /// Pictures of all streams of the track: counted in its first one's state.
    var pictureCount: UInt64 = 0
    /// When the last of them came, and the longest time between two since the gate opened; as `Track.lastArrival`.
    var lastPictureAt = Instant.distantFuture
    var longestGap = Interval.zero
    /// What that count was at this stream's newest picture.
    var countAtNewest: UInt64 = 0
    var lastPacketAt = Instant(nanoseconds: -1_000_000_000_000)

    static func create(_ section: MediaSection, position: Int) -> UnsafeMutablePointer<LayerState> {
        let codec: LayeredCodec? =
            switch section.codec {
            case .vp8: .vp8
            case .vp9: .vp9
            case .opus, .h264, .av1: nil
            }
        let id = section.extensions[.dependencyDescriptor]
        let dependencyID = (1...15).contains(id) ? id : 0
        let memory = UnsafeMutablePointer<LayerState>.allocate(capacity: 1)
        memory.initialize(
            to: LayerState(
                codec: codec, dependencyID: dependencyID, position: position,
                structure: dependencyID != 0 && codec == nil ? .create() : nil))
        return memory
    }

    static func destroy(_ layer: UnsafeMutablePointer<LayerState>) {
        layer.pointee.structure?.destroy()
        layer.deinitialize(count: 1)
        layer.deallocate()
    }
}

/// Where the fields of a packet lie that are counted on through switches, with their values. Offsets of payload fields count from
/// the payload's start, the descriptor's from the packet's; 0: absent.
struct PictureFields {
    var pictureOffset = 0
    /// 1 (7 bits) or 2 (15 bits).
    var pictureByteCount = 0
    /// Extended over its wraps.
    var picture: UInt64 = 0
    var baseIndexOffset = 0
    var baseIndex: UInt8 = 0
    /// Of the frame number in the dependency descriptor.
    var frameOffset = 0
    var frame: UInt16 = 0
}

/// What one slot gets of its track's layers.
struct LayeredSlot {
    // What is sent.
    var pictures = SequenceMap()
    /// Outgoing minus incoming TL0PICIDX, and the newest one sent.
    var baseIndexOffset: UInt8 = 0
    var newestBaseIndex: UInt8 = 0
    /// The same of the dependency descriptor's frame numbers.
    var frameOffset: UInt16 = 0
    var newestFrame: UInt16 = 0
    /// The highest temporal layer that passes, from packet `limitSince` on; before it was `earlierLimit`.
    var limit = LayerLadder.allTemporalLayers
    var earlierLimit = LayerLadder.allTemporalLayers
    var limitSince: UInt64 = 0

    // What is wished.
    /// The stream whose next key frame the slot waits for; -1: none.
    var target: Int32 = -1
    var targetSince = Instant(nanoseconds: 0)
    var wishedLimit = LayerLadder.allTemporalLayers
    /// Since when `limit` is below `wishedLimit`.
    var risesSince = Instant.distantFuture
    /// The stream that the path and the receiver's wish allow, whether or not it flows now; -1: not chosen yet.
    var wish: Int32 = -1
    var wishLimit = LayerLadder.allTemporalLayers
    var choice = LayerChoice()

    static func create() -> UnsafeMutablePointer<LayeredSlot> {
        let memory = UnsafeMutablePointer<LayeredSlot>.allocate(capacity: 1)
        memory.initialize(to: LayeredSlot())
        return memory
    }

    static func destroy(_ layered: UnsafeMutablePointer<LayeredSlot>) {
        layered.deinitialize(count: 1)
        layered.deallocate()
    }

    /// Another track is about to pass: what is sent goes on, what is wished begins anew.
    mutating func restart() {
        limit = LayerLadder.allTemporalLayers
        earlierLimit = limit
        wishedLimit = limit
        (wish, wishLimit) = (-1, limit)
        choice = LayerChoice()
    }

    /// The numbers of the first packet of another source go on after the last ones sent.
    mutating func align(to fields: PictureFields) {
        if fields.pictureOffset > 0 {
            if pictures.isStarted {
                pictures.rebase(source: fields.picture)
            } else {
                // Unchanged until there is a switch to hide (R04).
                pictures.start(source: fields.picture, output: fields.picture)
            }
        }
        if fields.baseIndexOffset > 0 { baseIndexOffset = hasBaseIndex ? newestBaseIndex &+ 1 &- fields.baseIndex : 0 }
        if fields.frameOffset > 0 { frameOffset = hasFrame ? newestFrame &+ 1 &- fields.frame : 0 }
    }
    private(set) var hasBaseIndex = false
    private(set) var hasFrame = false

    /// The numbers that the packet is sent with; false for a picture whose number is no longer known.
    @inline(__always) mutating func map(_ fields: PictureFields, to out: inout PictureFields) -> Bool {
        if fields.pictureOffset > 0, pictures.isStarted {
            guard let picture = pictures.map(fields.picture) else { return false }
            out.picture = picture
        }
        if fields.baseIndexOffset > 0 {
            out.baseIndex = fields.baseIndex &+ baseIndexOffset
            if !hasBaseIndex || Int8(bitPattern: out.baseIndex &- newestBaseIndex) > 0 {
                newestBaseIndex = out.baseIndex
            }
            hasBaseIndex = true
        }
        if fields.frameOffset > 0 {
            out.frame = fields.frame &+ frameOffset
            if !hasFrame || Int16(bitPattern: out.frame &- newestFrame) > 0 { newestFrame = out.frame }
            hasFrame = true
        }
        return true
    }
}

extension PictureFields {
    /// Writes the values into the packet, where they lie.
    @inline(__always) func store(payload: UnsafeMutablePointer<UInt8>, packet: UnsafeMutablePointer<UInt8>) {
        if pictureOffset > 0 {
            if pictureByteCount == 2 {
                storeBigEndian(UInt16(truncatingIfNeeded: picture) | 0x8000, at: payload + pictureOffset)
            } else {
                payload[pictureOffset] = UInt8(truncatingIfNeeded: picture) & 0x7F
            }
        }
        if baseIndexOffset > 0 { payload[baseIndexOffset] = baseIndex }
        if frameOffset > 0 { storeBigEndian(frame, at: packet + frameOffset) }
    }
}
