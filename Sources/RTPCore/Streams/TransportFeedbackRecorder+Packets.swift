// Builds transport-cc packets from the recorder's window: which numbers one packet covers, and the shortest
// chunks for them. `TransportFeedback` has the format.

extension TransportFeedbackRecorder {
    /// Appends one feedback packet of at most `byteLimit` bytes and marks what it says as reported. Call
    /// again until it returns false: late packets, gaps of time and long lists make several packets.
    ///
    /// - Parameter mediaSSRC: any source of the transport; receivers of feedback do not look at it.
    /// - Returns: false when nothing waits to be reported, or fewer than `leastByteCount` bytes are free;
    ///   nothing is written then.
    public mutating func appendFeedback(
        to output: inout OutputSpan<UInt8>, senderSSRC: UInt32, mediaSSRC: UInt32
    ) -> Bool {
        // Whole words only: the packet is filled up to one.
        let budget = min(Self.byteLimit, output.freeCapacity) & ~3
        guard pendingCount > 0, budget >= Self.leastByteCount else { return false }
        // What is new goes first: a caller with room for few packets must not starve it by late ones.
        var range = next <= highest ? next..<highest + 1 : lateRange()
        let reference = classify(&range)
        limit(&range, to: budget)
        let (chunkCount, deltaByteCount) = measure(range)
        let byteCount = (20 + chunkCount * 2 + deltaByteCount + 3) & ~3
        guard RTCPWriter.begin(&output, RTCPPacketType.transportFeedback, count: 15, byteCount) else {
            return false
        }
        output.appendBigEndian(senderSSRC)
        output.appendBigEndian(mediaSSRC)
        output.appendBigEndian(UInt16(truncatingIfNeeded: range.lowerBound))
        output.appendBigEndian(UInt16(range.count))
        output.appendBigEndian(UInt32(truncatingIfNeeded: reference) << 8 | UInt32(feedbackCount))
        appendChunks(of: range, to: &output)
        appendDeltas(of: range, since: reference << 8, to: &output)
        for _ in 20 + chunkCount * 2 + deltaByteCount..<byteCount { output.append(0) }
        feedbackCount &+= 1
        markReported(range)
        return true
    }

    /// The first late packet that waits and the ones that follow it without a gap.
    private func lateRange() -> Range<Int64> {
        var first = windowStart
        while first < next && entry(of: first) < 0 { first += 1 }
        assert(first < next, "a late packet waits in the window")
        var end = first + 1
        while end < next && entry(of: end) >= 0 { end += 1 }
        return first..<end
    }

    /// Sets the symbols of the range, cut before a delta that 16 bits cannot say. Returns the reference time
    /// in 64 ms.
    private func classify(_ range: inout Range<Int64>) -> Int64 {
        range = range.lowerBound..<min(range.upperBound, range.lowerBound + 0xFFFF)
        var reference: Int64?
        var previous: Int64 = 0
        for sequence in inWindow(range) {
            let ticks = entry(of: sequence)
            guard ticks >= 0 else { continue }
            if reference == nil {
                // 64 ms are 256 ticks: the first delta is always a small one.
                reference = ticks >> 8
                previous = ticks & ~0xFF
            }
            guard let delta = Int16(exactly: ticks - previous) else {
                range = range.lowerBound..<sequence
                break
            }
            setSymbol(of: sequence, (0...255).contains(delta) ? 1 : 2)
            previous = ticks
        }
        return reference ?? 0
    }

    /// Cuts the range to what fits into `budget` bytes.
    private func limit(_ range: inout Range<Int64>, to budget: Int) {
        var position = range.lowerBound
        var byteCount = 20
        while position < range.upperBound {
            let chunk = chunk(at: position, before: range.upperBound)
            let covered = Int(min(Int64(chunk.count), range.upperBound - position))
            let room = budget - byteCount - 2
            let deltaByteCount = chunk.deltaByteCount(of: covered)
            if deltaByteCount > room {
                // A run may be cut anywhere, the other chunks only at their end.
                let isRun = chunk.rawValue & 0x8000 == 0
                let perPacket = StatusChunk.deltaByteCount(of: chunk.symbol(at: 0))
                let kept = isRun && room > 0 ? room / perPacket : 0
                range = range.lowerBound..<position + Int64(kept)
                return
            }
            byteCount += 2 + deltaByteCount
            position += Int64(covered)
        }
    }

    private func measure(_ range: Range<Int64>) -> (chunkCount: Int, deltaByteCount: Int) {
        var chunkCount = 0
        var deltaByteCount = 0
        var position = range.lowerBound
        while position < range.upperBound {
            let chunk = chunk(at: position, before: range.upperBound)
            let covered = Int(min(Int64(chunk.count), range.upperBound - position))
            chunkCount += 1
            deltaByteCount += chunk.deltaByteCount(of: covered)
            position += Int64(covered)
        }
        return (chunkCount, deltaByteCount)
    }

    private func appendChunks(of range: Range<Int64>, to output: inout OutputSpan<UInt8>) {
        var position = range.lowerBound
        while position < range.upperBound {
            let chunk = chunk(at: position, before: range.upperBound)
            output.appendBigEndian(chunk.rawValue)
            position += Int64(chunk.count)
        }
    }

    private func appendDeltas(
        of range: Range<Int64>, since reference: Int64, to output: inout OutputSpan<UInt8>
    ) {
        var previous = reference
        for sequence in inWindow(range) {
            let ticks = entry(of: sequence)
            guard ticks >= 0 else { continue }
            if symbol(of: sequence) == 1 {
                output.append(UInt8(ticks - previous))
            } else {
                output.appendBigEndian(UInt16(bitPattern: Int16(ticks - previous)))
            }
            previous = ticks
        }
    }

    private mutating func markReported(_ range: Range<Int64>) {
        for sequence in inWindow(range) where entry(of: sequence) >= 0 {
            setEntry(of: sequence, Self.reported)
            pendingCount -= 1
            if sequence < next { lateCount -= 1 }
        }
        next = max(next, range.upperBound)
    }

    /// The chunk that covers most symbols from `position` on; a run where it covers as many as another.
    private func chunk(at position: Int64, before end: Int64) -> StatusChunk {
        let remaining = Int(end - position)
        let first = symbol(of: position)
        var run = 1
        while run < min(remaining, 0x1FFF) && symbol(of: position + Int64(run)) == first { run += 1 }
        let longest = min(remaining, 14)
        var narrow = 0
        while narrow < longest && symbol(of: position + Int64(narrow)) <= 1 { narrow += 1 }
        // Only the last chunk may cover fewer than all of its symbols.
        let oneBit = narrow == longest ? longest : 0
        let twoBit = min(remaining, 7)
        if run >= max(oneBit, twoBit) {
            return StatusChunk(rawValue: UInt16(first) << 13 | UInt16(run))
        }
        var rawValue: UInt16 = oneBit >= twoBit ? 0x8000 : 0xC000
        for index in 0..<max(oneBit, twoBit) {
            let bits = UInt16(symbol(of: position + Int64(index)))
            rawValue |= oneBit >= twoBit ? bits << UInt16(13 - index) : bits << UInt16(12 - 2 * index)
        }
        return StatusChunk(rawValue: rawValue)
    }

    /// The part of a range whose arrivals are known.
    private func inWindow(_ range: Range<Int64>) -> Range<Int64> {
        range.clamped(to: windowStart..<highest + 1)
    }

    /// Numbers before the window were never received.
    private func symbol(of sequence: Int64) -> UInt8 {
        guard sequence >= windowStart else { return 0 }
        // Safe: the mask keeps the index inside the window.
        let state = unsafe words[Int(sequence & (Self.windowCount - 1))] >> 30
        return UInt8(max(1, state) - 1)
    }
    /// Of a packet that waits to be reported: 1 or 2.
    private func setSymbol(of sequence: Int64, _ symbol: UInt8) {
        let index = Int(sequence & (Self.windowCount - 1))
        // Safe: as above.
        unsafe words[index] = words[index] & Self.tickMask | UInt32(symbol + 1) << 30
    }
}
