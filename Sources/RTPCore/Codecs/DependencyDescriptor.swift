/// The dependency descriptor of one packet (AOM's RTP Payload Format For AV1, appendix A; other codecs carry it too): which
/// frame it belongs to and what that frame means for each decode target. What a relay decides by is read; frame and chain
/// differences are passed over.
///
///     |S|E| template id |   frame number (16)   |  flags, structure and custom fields, when longer than three bytes
@frozen public struct DependencyDescriptor: Sendable, Hashable {
    /// What a frame is to a decode target.
    public enum Indication: UInt8, Sendable { case notPresent, discardable, switching, required }

    /// Byte of the frame number, counted from the element's start: two bytes, big-endian.
    public static var frameNumberOffset: Int { 1 }
    /// The longest element that is read: libwebrtc's largest structures have about 200 bytes.
    public static var byteLimit: Int { 255 }

    public var startsFrame: Bool
    public var endsFrame: Bool
    /// 0…63.
    public var templateID: UInt8
    public var frameNumber: UInt16
    /// The packet brought a template structure, so its frame begins a coded video sequence.
    public var hasStructure: Bool
    /// 0…3.
    public var spatialLayer: UInt8
    /// 0…7.
    public var temporalLayer: UInt8
    /// Bit i: decode target i is sent; nil where the packet does not say.
    public var activeTargets: UInt32?
    /// Two bits for each decode target, the first one lowest.
    @usableFromInline var indications: UInt64

    /// Reads the element at `offset`. A structure that it brings replaces the one in `structure`, and only if the whole
    /// element can be read. Nil for an element that is cut short, against the format, or of a template that is not
    /// known. Never traps, never allocates.
    public init?(_ bytes: Span<UInt8>, offset: Int, byteCount: Int, structure: inout DependencyStructure) {
        guard byteCount >= 3, byteCount <= Self.byteLimit, offset >= 0, offset <= bytes.count - byteCount else {
            return nil
        }
        var bits = BitCursor(offset: offset, byteCount: byteCount)
        startsFrame = bits.flag(in: bytes)
        endsFrame = bits.flag(in: bytes)
        templateID = UInt8(truncatingIfNeeded: bits.take(6, in: bytes))
        frameNumber = UInt16(truncatingIfNeeded: bits.take(16, in: bytes))
        (hasStructure, activeTargets) = (false, nil)
        (spatialLayer, temporalLayer, indications) = (0, 0, 0)
        var (hasTargets, hasIndications, hasDifferences, hasChains) = (false, false, false, false)
        if byteCount > 3 {
            hasStructure = bits.flag(in: bytes)
            hasTargets = bits.flag(in: bytes)
            hasIndications = bits.flag(in: bytes)
            hasDifferences = bits.flag(in: bytes)
            hasChains = bits.flag(in: bytes)
        }
        if hasStructure {
            guard structure.prepare(&bits, bytes) else { return nil }
        }
        let table = hasStructure ? structure.next : structure.current
        guard table.templateCount > 0 else { return nil }
        if hasStructure { activeTargets = UInt32.max >> UInt32(32 - Int(table.targetCount)) }
        if hasTargets { activeTargets = UInt32(truncatingIfNeeded: bits.take(Int(table.targetCount), in: bytes)) }
        let index = (templateID &+ 64 &- table.idOffset) & 63
        guard index < table.templateCount else { return nil }
        let template = structure.template(Int(index), isNext: hasStructure)
        spatialLayer = template.layers >> 4
        temporalLayer = template.layers & 0x0F
        indications = template.indications
        if hasIndications {
            indications = DependencyStructure.readIndications(Int(table.targetCount), &bits, bytes)
        }
        if hasDifferences {
            while case let size = bits.take(2, in: bytes), size > 0, !bits.isExhausted {
                _ = bits.take(4 * Int(size), in: bytes)
            }
        }
        if hasChains { bits.skip(8 * Int(table.chainCount)) }
        guard !bits.isExhausted else { return nil }
        if hasStructure { structure.commit() }
    }

    /// What the frame is to decode target `target`, 0…31; `notPresent` for one that does not exist.
    @inlinable public func indication(for target: Int) -> Indication {
        guard target >= 0, target < 32 else { return .notPresent }
        return Indication(rawValue: UInt8(truncatingIfNeeded: indications >> UInt64(2 * target) & 3)) ?? .notPresent
    }
}

/// The template structure that a source sent last: layers and indications of up to 64 templates, the layers of up to 32
/// decode targets, picture sizes. Starts empty.
///
/// Owns C memory (2 KiB): made by `create`, freed once by `destroy`. Copies share that memory. Allocates nothing in between.
@safe public struct DependencyStructure {
    public static let templateLimit = 64
    public static let spatialLayerLimit: UInt8 = 4
    public static let temporalLayerLimit: UInt8 = 8

    /// What is known beside the templates. The memory holds two sets of them, so that one that turns out to be malformed
    /// leaves the last good one alone.
    struct Table {
        var bank = 0
        var templateCount: UInt8 = 0
        var idOffset: UInt8 = 0
        var targetCount: UInt8 = 0
        var chainCount: UInt8 = 0
        /// Spatial layer in the upper, temporal in the lower four bits.
        var targetLayers = SIMD32<UInt8>(repeating: 0)
        var spatialLayerCount: UInt8 = 0
        var widths = SIMD4<UInt32>(repeating: 0)
        var heights = SIMD4<UInt32>(repeating: 0)
    }

    struct Template {
        var indications: UInt64 = 0
        /// Spatial layer in the upper, temporal in the lower four bits.
        var layers: UInt8 = 0
    }

    private let templates: UnsafeMutablePointer<Template>
    var current = Table()
    var next = Table()

    private init(templates: UnsafeMutablePointer<Template>) {
        unsafe self.templates = templates
    }

    public static func create() -> DependencyStructure {
        let templates = UnsafeMutablePointer<Template>.allocate(capacity: 2 * templateLimit)
        unsafe templates.initialize(repeating: Template(), count: 2 * templateLimit)
        return unsafe DependencyStructure(templates: templates)
    }

    /// Frees the memory; neither this value nor a copy of it may be used afterwards.
    public func destroy() {
        // Safe: allocated by `create`, and the caller's contract is to call this once.
        unsafe templates.deallocate()
    }

    /// Forgets what is known: the source begins anew.
    public mutating func reset() { current.templateCount = 0 }

    public var isKnown: Bool { current.templateCount > 0 }
    public var templateCount: Int { Int(current.templateCount) }
    /// 1…32; 0 while nothing is known.
    public var targetCount: Int { isKnown ? Int(current.targetCount) : 0 }
    public var chainCount: Int { Int(current.chainCount) }
    public var spatialLayerCount: Int { Int(current.spatialLayerCount) }

    /// The highest layers of a decode target; nil for one that does not exist.
    public func layers(ofTarget target: Int) -> (spatial: UInt8, temporal: UInt8)? {
        guard target >= 0, target < targetCount else { return nil }
        let layers = current.targetLayers[target]
        return (layers >> 4, layers & 0x0F)
    }

    /// Picture size of a spatial layer in pixels; nil when the structure does not say.
    public func size(ofSpatialLayer layer: Int) -> (width: Int, height: Int)? {
        guard isKnown, layer >= 0, layer < spatialLayerCount, current.heights[layer] > 0 else { return nil }
        return (Int(current.widths[layer]), Int(current.heights[layer]))
    }

    /// The decode target with all spatial layers whose highest temporal layer is `limit`, or the highest below; nil
    /// where there is none.
    public func target(upToTemporal limit: UInt8) -> Int? {
        var best: (target: Int, layers: UInt8)?
        for target in 0..<targetCount {
            let layers = current.targetLayers[target]
            guard layers & 0x0F <= limit, best.map({ layers > $0.layers }) ?? true else { continue }
            best = (target, layers)
        }
        return best?.target
    }

    func template(_ index: Int, isNext: Bool) -> Template {
        let bank = isNext ? next.bank : current.bank
        // Safe: fewer than `templateLimit` templates are ever counted, and there are two banks.
        return unsafe templates[bank * Self.templateLimit + index]
    }

    // MARK: Reading

    /// `template_dependency_structure`, into the bank that is not in use. False for one that is against the format.
    mutating func prepare(_ bits: inout BitCursor, _ bytes: Span<UInt8>) -> Bool {
        next = Table()
        next.bank = 1 - current.bank
        next.idOffset = UInt8(truncatingIfNeeded: bits.take(6, in: bytes))
        next.targetCount = UInt8(truncatingIfNeeded: bits.take(5, in: bytes)) + 1
        guard readLayers(&bits, bytes) else { return false }
        for index in 0..<Int(next.templateCount) {
            let indications = Self.readIndications(Int(next.targetCount), &bits, bytes)
            // Safe: see `template`.
            unsafe templates[next.bank * Self.templateLimit + index].indications = indications
            noteTargets(of: template(index, isNext: true))
        }
        for _ in 0..<Int(next.templateCount) {
            while bits.flag(in: bytes) { bits.skip(4) }
        }
        next.chainCount = UInt8(truncatingIfNeeded: bits.takeNonSymmetric(UInt32(next.targetCount) + 1, in: bytes))
        if next.chainCount > 0 {
            for _ in 0..<Int(next.targetCount) { _ = bits.takeNonSymmetric(UInt32(next.chainCount), in: bytes) }
            bits.skip(4 * Int(next.templateCount) * Int(next.chainCount))
        }
        if bits.flag(in: bytes) {
            for layer in 0..<Int(next.spatialLayerCount) {
                next.widths[layer] = bits.take(16, in: bytes) + 1
                next.heights[layer] = bits.take(16, in: bytes) + 1
            }
        }
        return !bits.isExhausted
    }

    /// `template_layers`: the layers of each template, in order.
    private mutating func readLayers(_ bits: inout BitCursor, _ bytes: Span<UInt8>) -> Bool {
        var (spatial, temporal): (UInt8, UInt8) = (0, 0)
        while true {
            guard next.templateCount < Self.templateLimit, spatial < Self.spatialLayerLimit,
                temporal < Self.temporalLayerLimit, !bits.isExhausted
            else { return false }
            // Safe: below `templateLimit`, checked above.
            unsafe templates[next.bank * Self.templateLimit + Int(next.templateCount)].layers = spatial << 4 | temporal
            next.templateCount += 1
            switch bits.take(2, in: bytes) {
            case 0: break
            case 1: temporal += 1
            case 2: (spatial, temporal) = (spatial + 1, 0)
            default:
                next.spatialLayerCount = spatial + 1
                return true
            }
        }
    }

    static func readIndications(_ targetCount: Int, _ bits: inout BitCursor, _ bytes: Span<UInt8>) -> UInt64 {
        var indications: UInt64 = 0
        for target in 0..<targetCount { indications |= UInt64(bits.take(2, in: bytes)) << UInt64(2 * target) }
        return indications
    }

    /// `decode_target_layers`: a target's layers are the highest of the templates that are present in it.
    private mutating func noteTargets(of template: Template) {
        for target in 0..<Int(next.targetCount) where template.indications >> UInt64(2 * target) & 3 != 0 {
            let known = next.targetLayers[target]
            let spatial = max(known >> 4, template.layers >> 4)
            next.targetLayers[target] = spatial << 4 | max(known & 0x0F, template.layers & 0x0F)
        }
    }

    mutating func commit() { current = next }
}

/// Takes bits off an element, the highest first; beyond its end they are 0 and `isExhausted` is set.
struct BitCursor {
    private var position: Int
    private let end: Int
    private(set) var isExhausted = false

    init(offset: Int, byteCount: Int) {
        position = 8 * offset
        end = 8 * (offset + byteCount)
    }

    mutating func flag(in bytes: Span<UInt8>) -> Bool { take(1, in: bytes) == 1 }

    /// `count` bits, 0…32.
    mutating func take(_ count: Int, in bytes: Span<UInt8>) -> UInt32 {
        guard count <= end - position else {
            isExhausted = true
            position = end
            return 0
        }
        var value: UInt32 = 0
        var left = count
        while left > 0 {
            let free = 8 - position & 7
            let step = min(free, left)
            let byte = UInt32(bytes[position >> 3])
            value = value << UInt32(step) | byte >> UInt32(free - step) & (1 << UInt32(step) - 1)
            position += step
            left -= step
        }
        return value
    }

    mutating func skip(_ count: Int) {
        guard count <= end - position else {
            isExhausted = true
            position = end
            return
        }
        position += count
    }

    /// `ns(n)`: a number below `bound` in as few bits as that takes (the specification's section A.8.2).
    mutating func takeNonSymmetric(_ bound: UInt32, in bytes: Span<UInt8>) -> UInt32 {
        let width = 32 - bound.leadingZeroBitCount
        let short = 1 << UInt32(width) - bound
        let value = take(width - 1, in: bytes)
        return value < short ? value : value << 1 - short + take(1, in: bytes)
    }
}
