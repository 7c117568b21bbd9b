import RTPCore

// The way of a packet where layers are chosen among: what it says of its layers is read once, then each slot leaves out whole
// pictures of upper temporal layers, and the pictures' numbers go on over switches and what was left out.

extension MediaEngine {
    /// Reads what the packet at hand says of its layers and counts it; before anything is decided by it.
    @inline(never) func observeLayers(
        _ track: UnsafeMutablePointer<Track>, _ layer: UnsafeMutablePointer<LayerState>, header: RTPHeader,
        packet: UnsafeMutablePointer<UInt8>, payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64,
        now: Instant
    ) {
        if layer.pointee.source != track.pointee.currentSource {
            layer.pointee.source = track.pointee.currentSource
            layer.pointee.newestIndex = 0
            layer.pointee.newestPicture = 0
            layer.pointee.structure?.reset()
        }
        let isFirst = layer.pointee.newestIndex == 0
        layer.pointee.isNewest = isFirst || index > layer.pointee.newestIndex
        let content = UnsafeBufferPointer(start: payload, count: payloadByteCount).span
        readLayers(layer, header: header, packet: packet, payload: content)
        let startsPicture =
            layer.pointee.isNewest
            && (isFirst || TimestampArithmetic.isNewer(header.timestamp, than: layer.pointee.newestTimestamp))
        if layer.pointee.isNewest { layer.pointee.newestIndex = index }
        layer.pointee.lastPacketAt = now
        if startsPicture {
            layer.pointee.newestTimestamp = header.timestamp
            countPicture(track, layer, now: now)
        }
        layer.pointee.rate.add(
            byteCount: payloadByteCount + Limits.packetOverhead, temporalLayer: layer.pointee.packet.temporalLayer,
            now: now)
        if layer.pointee.packet.startsKeyFrame, let height = height(track.pointee.codec, layer, content) {
            layer.pointee.height = height
        }
    }

    private func countPicture(
        _ track: UnsafeMutablePointer<Track>, _ layer: UnsafeMutablePointer<LayerState>, now: Instant
    ) {
        let lead = tracks[track.pointee.lead]
        guard let first = lead.pointee.layer else { return }
        first.pointee.pictureCount &+= 1
        layer.pointee.countAtNewest = first.pointee.pictureCount
        // The gaps of a track are those in which none of its streams comes.
        let gap = now - first.pointee.lastPictureAt
        if gap > first.pointee.longestGap { first.pointee.longestGap = gap }
        first.pointee.lastPictureAt = now
    }

    private func readLayers(
        _ layer: UnsafeMutablePointer<LayerState>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: Span<UInt8>
    ) {
        layer.pointee.descriptor = nil
        switch layer.pointee.codec {
        case .vp8: layer.pointee.packet = PacketLayers(vp8: payload)
        case .vp9: layer.pointee.packet = PacketLayers(vp9: payload)
        case nil: layer.pointee.packet = PacketLayers()
        }
        let place = dependencyElement(layer.pointee.dependencyID)
        layer.pointee.fields = fields(of: layer.pointee.packet, descriptorAt: place?.offset, in: packet, layer)
        if layer.pointee.isNewest, layer.pointee.fields.pictureOffset > 0 {
            layer.pointee.newestPicture = max(
                layer.pointee.newestPicture, Int64(layer.pointee.fields.picture))
        }
        guard let place, layer.pointee.structure != nil else { return readPlainStart(layer, header, payload) }
        let bytes = UnsafeBufferPointer(start: packet, count: place.offset + place.byteCount).span
        if var structure = layer.pointee.structure {
            layer.pointee.descriptor = DependencyDescriptor(
                bytes, offset: place.offset, byteCount: place.byteCount, structure: &structure)
            layer.pointee.structure = structure
        }
        guard let descriptor = layer.pointee.descriptor else { return readPlainStart(layer, header, payload) }
        layer.pointee.packet.temporalLayer = descriptor.temporalLayer
        layer.pointee.packet.startsPicture = descriptor.startsFrame && descriptor.spatialLayer == 0
        layer.pointee.packet.startsKeyFrame = descriptor.hasStructure && descriptor.startsFrame
    }

    /// Where neither payload nor descriptor tells, a picture begins where the timestamp moves.
    private func readPlainStart(_ layer: UnsafeMutablePointer<LayerState>, _ header: RTPHeader, _ payload: Span<UInt8>)
    {
        guard layer.pointee.codec == nil else { return }
        layer.pointee.packet.startsPicture =
            layer.pointee.isNewest && header.timestamp != layer.pointee.newestTimestamp
    }

    @inline(__always) private func dependencyElement(_ id: UInt8) -> (offset: Int, byteCount: Int)? {
        guard id != 0 else { return nil }
        var i = 0
        while i < elementCount {
            let element = elements[i]
            if element.id == id, element.byteCount >= 3 { return (Int(element.offset), Int(element.byteCount)) }
            i &+= 1
        }
        return nil
    }

    /// Where the counted fields lie. `layer` tells near which picture the number is meant.
    private func fields(
        of layers: PacketLayers, descriptorAt offset: Int?, in packet: UnsafeMutablePointer<UInt8>,
        _ layer: UnsafeMutablePointer<LayerState>
    ) -> PictureFields {
        var fields = PictureFields()
        if layers.pictureIDOffset > 0 {
            fields.pictureOffset = layers.pictureIDOffset
            fields.pictureByteCount = layers.pictureIDByteCount
            let circle: Int64 = layers.pictureIDByteCount == 2 ? 1 << 15 : 1 << 7
            let near = layer.pointee.newestPicture
            let start = near == 0 ? circle << 4 : near
            var distance = (Int64(layers.pictureID) - start) % circle
            if distance >= circle / 2 { distance -= circle }
            if distance < -circle / 2 { distance += circle }
            fields.picture = UInt64(max(0, start + distance))
        }
        fields.baseIndexOffset = layers.baseLayerIndexOffset
        fields.baseIndex = layers.baseLayerIndex
        if let offset {
            fields.frameOffset = offset + DependencyDescriptor.frameNumberOffset
            fields.frame = UInt16(packet[fields.frameOffset]) << 8 | UInt16(packet[fields.frameOffset + 1])
        }
        return fields
    }

    private func height(
        _ codec: MediaCodec, _ layer: UnsafeMutablePointer<LayerState>, _ payload: Span<UInt8>
    ) -> Int? {
        switch codec {
        case .vp8: return KeyFrameSize.vp8(payload)?.height
        case .vp9: return KeyFrameSize.vp9(payload)?.height
        case .opus, .h264, .av1:
            guard let structure = layer.pointee.structure else { return nil }
            return structure.size(ofSpatialLayer: structure.spatialLayerCount - 1)?.height
        }
    }

    // MARK: Out

    /// One packet into every slot of its stream's chain.
    @inline(never) func forwardLayer(
        _ layer: UnsafeMutablePointer<LayerState>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, index: UInt64, track trackIndex: Int32,
        now: Instant
    ) {
        let track = tracks[trackIndex]
        let source = track.pointee.currentSource
        var slot = track.pointee.firstSubscription
        while slot >= 0 {
            let subscription = subscriptions[slot]
            slot = subscription.pointee.nextOfTrack
            if !isAligned(subscription, to: source, index: index) {
                align(subscription, to: source, index: index, timestamp: header.timestamp, now: now)
                subscription.pointee.layered?.pointee.align(to: layer.pointee.fields)
                subscription.pointee.layered?.pointee.limitSince = 0
            }
            guard let layered = subscription.pointee.layered else { continue }
            guard passes(layered, layer, index: index) else {
                leaveOut(subscription, layered, layer, header: header, packet: packet, index: index, now: now)
                continue
            }
            var out = layer.pointee.fields
            guard layered.pointee.map(layer.pointee.fields, to: &out) else {
                counters.drop(.rtpTooOld)
                continue
            }
            out.store(payload: payload, packet: packet)
            passInline(
                subscription, as: subscription.pointee.payloadType, header: header, packet: packet, payload: payload,
                payloadByteCount: payloadByteCount, index: index, now: now)
        }
    }

    /// Whether the picture passes the slot's temporal limit, which moves at pictures' starts only: whole pictures pass or not.
    @inline(__always) private func passes(
        _ layered: UnsafeMutablePointer<LayeredSlot>, _ layer: UnsafeMutablePointer<LayerState>, index: UInt64
    ) -> Bool {
        if layered.pointee.wishedLimit != layered.pointee.limit, layer.pointee.isNewest,
            layer.pointee.packet.startsPicture
        {
            let limit = temporalLimit(layered.pointee, layer.pointee)
            if limit != layered.pointee.limit {
                layered.pointee.earlierLimit = layered.pointee.limit
                layered.pointee.limit = limit
                layered.pointee.limitSince = index
            }
        }
        let limit = index < layered.pointee.limitSince ? layered.pointee.earlierLimit : layered.pointee.limit
        return layer.pointee.packet.temporalLayer <= limit
    }

    private func temporalLimit(_ layered: LayeredSlot, _ layer: LayerState) -> UInt8 {
        if let descriptor = layer.descriptor, let structure = layer.structure {
            return descriptor.temporalLimit(
                after: layered.limit, wanted: layered.wishedLimit, structure: structure)
        }
        guard let codec = layer.codec else { return layered.wishedLimit }
        return layer.packet.temporalLimit(after: layered.limit, wanted: layered.wishedLimit, codec: codec)
    }

    /// A packet of a picture that the slot does not get: its numbers close up. One that comes late, when its place is
    /// fixed already, is made up for by padding, so that the receiver does not ask for it.
    private func leaveOut(
        _ subscription: UnsafeMutablePointer<Subscription>, _ layered: UnsafeMutablePointer<LayeredSlot>,
        _ layer: UnsafeMutablePointer<LayerState>, header: RTPHeader, packet: UnsafeMutablePointer<UInt8>,
        index: UInt64,
        now: Instant
    ) {
        counters.drop(.rtpUpperLayer)
        if subscription.pointee.sequence.drop(index) {
            if layer.pointee.packet.closesPictureIDs, layer.pointee.fields.pictureOffset > 0 {
                layered.pointee.pictures.drop(layer.pointee.fields.picture)
            }
        } else if let sequence = subscription.pointee.sequence.map(index) {
            writePadding(subscription, sequence: sequence, header: header, packet: packet, now: now)
        }
    }

    /// Puts the slot's numbers into a packet out of the history; nil where the slot leaves it out. The bytes to put back
    /// afterwards, since the history serves others too.
    func renumber(
        _ subscription: UnsafeMutablePointer<Subscription>, _ layered: UnsafeMutablePointer<LayeredSlot>,
        payload: UnsafeMutablePointer<UInt8>, payloadByteCount: Int, packet: UnsafeMutablePointer<UInt8>
    ) -> PictureFields? {
        guard let layer = tracks[subscription.pointee.layer].pointee.layer else { return PictureFields() }
        let content = UnsafeBufferPointer(start: payload, count: payloadByteCount).span
        let layers =
            switch layer.pointee.codec {
            case .vp8: PacketLayers(vp8: content)
            case .vp9: PacketLayers(vp9: content)
            case nil: PacketLayers()
            }
        let place = dependencyElement(layer.pointee.dependencyID)
        let original = fields(of: layers, descriptorAt: place?.offset, in: packet, layer)
        var out = original
        guard layered.pointee.map(original, to: &out) else { return nil }
        out.store(payload: payload, packet: packet)
        return original
    }
}
