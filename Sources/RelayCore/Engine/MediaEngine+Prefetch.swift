import CMediaCrypto
import RTPCore

// With thousands of participants every packet meets records that no cache holds: a dozen misses one after the
// other, each as long as the whole of our logic. The sources of a receive batch are known before its first
// packet is worked on, so what they will need is fetched side by side. Only hints: nothing is changed, and
// whatever is missing comes by itself later.

extension MediaEngine {
    /// Packets whose records are fetched together; the rest of a longer batch comes by itself.
    public static let expectedCount = 64

    /// Says that datagrams from `count` peers are about to be received.
    public func expect(_ peers: UnsafePointer<PeerAddress>, count: Int) {
        let count = min(count, Self.expectedCount)
        // Few records stay in the cache by themselves.
        guard count > 1, transportByHandle.count > 64 else { return }
        withUnsafeTemporaryAllocation(of: Int32.self, capacity: Self.expectedCount) { scratch in
            guard let expected = scratch.baseAddress else { return }
            var found = 0
            for i in 0..<count {
                guard let flow = flows.find(peers[i]) else { continue }
                // Bursts come from one sender.
                if found > 0, expected[found &- 1] == flow.transport { continue }
                expected[found] = flow.transport
                found &+= 1
            }
            for i in 0..<found { fetchTransport(expected[i]) }
            for i in 0..<found { fetchReceiving(expected[i]) }
            for i in 0..<found { fetchSubscription(expected[i]) }
            for i in 0..<found { fetchReceiver(expected[i]) }
            for i in 0..<found { fetchSending(expected[i]) }
            for i in 0..<found { fetchNumbering(expected[i]) }
        }
    }

    @inline(__always) private func fetchTransport(_ index: Int32) {
        fetch(transports + Int(index), Transport.hotByteCount)
        let first = Int(index) &* Limits.sourcesPerTransport
        mc_prefetch(sourceSSRCs + first)
        // Most participants send from one or two SSRCs.
        fetch(sourceAt(first), Source.hotByteCount)
    }

    @inline(__always) private func fetchReceiving(_ index: Int32) {
        let transport = transports + Int(index)
        transport.pointee.receiveCipher?.prefetch()
        if transport.pointee.selectedPath >= 0 {
            fetch(pathAt(index, Int32(transport.pointee.selectedPath)), MemoryLayout<Path>.size)
        }
        if let feedback = transport.pointee.transportFeedback { mc_prefetch(feedback.nextPlace) }
        guard transport.pointee.sourceCount > 0 else { return }
        let source = sourceAt(Int(index) &* Limits.sourcesPerTransport)
        source.pointee.replay.prefetch()
        if source.pointee.track >= 0 { fetch(tracks[source.pointee.track], Track.hotByteCount) }
    }

    @inline(__always) private func fetchSubscription(_ index: Int32) {
        guard let subscription = firstSubscription(of: index) else { return }
        fetch(subscriptions[subscription], Subscription.hotByteCount)
        let source = sourceAt(Int(index) &* Limits.sourcesPerTransport)
        if let history = tracks[source.pointee.track].pointee.history {
            history.prefetch(source.pointee.estimator.highest &+ 1)
        }
    }

    @inline(__always) private func fetchReceiver(_ index: Int32) {
        guard let subscription = firstSubscription(of: index) else { return }
        fetch(transports + Int(subscriptions[subscription].pointee.receiver), Transport.hotByteCount)
    }

    @inline(__always) private func fetchSending(_ index: Int32) {
        guard let subscription = firstSubscription(of: index) else { return }
        let receiver = transports + Int(subscriptions[subscription].pointee.receiver)
        receiver.pointee.sendCipher?.prefetch()
        if let downlink = receiver.pointee.downlink { mc_prefetch(downlink) }
    }

    @inline(__always) private func fetchNumbering(_ index: Int32) {
        guard let subscription = firstSubscription(of: index) else { return }
        let receiver = transports + Int(subscriptions[subscription].pointee.receiver)
        if let downlink = receiver.pointee.downlink { mc_prefetch(downlink.pointee.estimator.nextPlace) }
    }

    /// Of the track that the participant's first source is bound to.
    @inline(__always) private func firstSubscription(of index: Int32) -> Int32? {
        guard transports[Int(index)].sourceCount > 0 else { return nil }
        let track = sourceAt(Int(index) &* Limits.sourcesPerTransport).pointee.track
        guard track >= 0 else { return nil }
        let subscription = tracks[track].pointee.firstSubscription
        return subscription >= 0 ? subscription : nil
    }

    @inline(__always) private func fetch<Record>(_ record: UnsafeMutablePointer<Record>, _ byteCount: Int) {
        let bytes = UnsafeRawPointer(record)
        var offset = 0
        while offset < byteCount {
            mc_prefetch(bytes + offset)
            offset &+= 64
        }
    }
}
