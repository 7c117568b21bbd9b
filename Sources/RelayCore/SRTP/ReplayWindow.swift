import CMediaCrypto

// Which packets of a stream were already taken. Owns the bitmap's memory; refuses guessing indices.

/// A replay list over packet indices (RFC 3711 §3.3.2, RFC 6479's ring without moving bits): an index is
/// fresh when it is newer than everything marked, or among the last `bitCount` indices and not marked yet.
///
/// A plain copyable struct whose copies share one bitmap, so only one copy may be in use. Confined to one
/// thread.
@frozen public struct ReplayWindow {
    @usableFromInline let words: UnsafeMutablePointer<UInt64>
    @usableFromInline let wordMask: UInt64
    /// One more than the highest marked index; 0 while nothing is marked.
    @usableFromInline var next: UInt64

    /// Media may arrive out of order by this much and is still taken (RFC 3711 asks for at least 64).
    public static let mediaBitCount = 1024

    /// `bitCount` is a power of two from 64 on: anything else traps.
    public static func create(bitCount: Int = mediaBitCount) -> ReplayWindow {
        precondition(bitCount >= 64 && bitCount & (bitCount - 1) == 0)
        let wordCount = bitCount / 64
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: wordCount)
        words.initialize(repeating: 0, count: wordCount)
        return ReplayWindow(words: words, wordMask: UInt64(wordCount - 1), next: 0)
    }

    @usableFromInline init(words: UnsafeMutablePointer<UInt64>, wordMask: UInt64, next: UInt64) {
        self.words = words
        self.wordMask = wordMask
        self.next = next
    }

    /// Asks for the bits that the next packet will probably need. A hint.
    @inline(__always) func prefetch() { mc_prefetch(words + Int((next >> 6) & wordMask)) }

    /// Frees the bitmap. No copy may be used afterwards.
    public func destroy() { words.deallocate() }

    @inlinable var bitCount: UInt64 { (wordMask + 1) << 6 }

    /// Whether `index` is fresh. Changes nothing: mark it only after the packet verified.
    @inlinable @inline(__always) public func check(_ index: UInt64) -> Bool {
        if index >= next { return true }
        if next &- 1 &- index >= bitCount { return false }
        return words[Int((index >> 6) & wordMask)] & (1 << (index & 63)) == 0
    }

    /// Remembers `index` of a packet that verified. Indices older than the window are ignored.
    @inlinable @inline(__always) public mutating func mark(_ index: UInt64) {
        if index >= next {
            // The bits between the old and the new front still say what was true one lap ago.
            if index != next { clear(from: next, to: index) }
            next = index &+ 1
        } else if next &- 1 &- index >= bitCount {
            return
        }
        words[Int((index >> 6) & wordMask)] |= 1 << (index & 63)
    }

    /// Clears the bits of `first ..< end`; `mark` sets the front's bit itself, which is the oldest one's
    /// place.
    @usableFromInline mutating func clear(from first: UInt64, to end: UInt64) {
        if end &- first >= bitCount {
            for word in 0...Int(wordMask) { words[word] = 0 }
            return
        }
        var index = first
        while index < end {
            let offset = index & 63
            let count = min(64 &- offset, end &- index)
            let bits = count == 64 ? ~0 : (1 as UInt64) << count &- 1
            words[Int((index >> 6) & wordMask)] &= ~(bits << offset)
            index &+= count
        }
    }
}
