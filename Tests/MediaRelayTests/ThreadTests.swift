import CLinuxIO
import MediaRelay
import RTPCore
import Testing

@Suite struct ThreadTests {
    @Test("a mailbox gives values in order, once")
    func order() throws {
        let mailbox = try Mailbox<Int>(capacity: 10)
        mailbox.post(1)
        mailbox.post(contentsOf: [2, 3])
        var batch: [Int] = [99]
        mailbox.take(into: &batch)
        #expect(batch == [1, 2, 3])
        mailbox.take(into: &batch)
        #expect(batch.isEmpty)
    }

    @Test("a full mailbox refuses and counts, and takes again after it was emptied")
    func full() throws {
        let mailbox = try Mailbox<Int>(capacity: 2)
        #expect(mailbox.post(contentsOf: [1, 2, 3]) == 2)
        #expect(!mailbox.post(4))
        #expect(mailbox.refusedCount == 2)
        var batch: [Int] = []
        mailbox.take(into: &batch)
        #expect(batch == [1, 2])
        #expect(mailbox.post(5))
    }

    @Test("a batch wakes its receiver once")
    func wakesOnce() throws {
        let mailbox = try Mailbox<Int>(capacity: 10)
        mailbox.post(1)
        mailbox.post(2)
        mailbox.post(contentsOf: [3, 4])
        #expect(mailbox.wakeUp.clear() == 1)
        var batch: [Int] = []
        mailbox.take(into: &batch)
        #expect(mailbox.wakeUp.clear() == 0)
        mailbox.post(5)
        #expect(mailbox.wakeUp.clear() == 1)
    }

    @Test("an empty batch wakes nobody")
    func emptyBatch() throws {
        let mailbox = try Mailbox<Int>(capacity: 10)
        mailbox.post(contentsOf: [])
        #expect(mailbox.wakeUp.clear() == 0)
    }

    @Test("what other threads post all arrives, each sender's in its order")
    func manySenders() throws {
        let mailbox = try Mailbox<Int>(capacity: 100_000)
        let threads = try (0..<4).map { sender in
            try Thread(named: "sender \(sender)") {
                for value in 0..<1_000 { mailbox.post(sender * 1_000 + value) }
            }
        }
        var received: [Int] = []
        var batch: [Int] = []
        let poller = try Poller()
        try poller.add(mailbox.wakeUp.descriptor, token: 1, for: .reading)
        let limit = MonotonicClock.now() + .seconds(20)
        while received.count < 4_000, MonotonicClock.now() < limit {
            guard poller.wait(until: limit, now: MonotonicClock.now()) > 0 else { continue }
            mailbox.wakeUp.clear()
            mailbox.take(into: &batch)
            received += batch
        }
        for thread in threads { thread.join() }
        #expect(received.count == 4_000)
        for sender in 0..<4 {
            let own = received.filter { $0 / 1_000 == sender }
            #expect(own == (0..<1_000).map { sender * 1_000 + $0 })
        }
    }

    @Test("a nice thread yields, the one that started it does not") func nice() throws {
        let mailbox = try Mailbox<Int32>(capacity: 1)
        let thread = try Thread(named: "nice", nice: 5) { mailbox.post(lio_thread_nice()) }
        thread.join()
        var batch: [Int32] = []
        mailbox.take(into: &batch)
        #expect(batch == [5] && lio_thread_nice() < 5)
    }

    @Test("join returns after the thread has ended")
    func join() throws {
        let mailbox = try Mailbox<String>(capacity: 1)
        let thread = try Thread(named: "a name longer than fifteen bytes") { mailbox.post("done") }
        thread.join()
        var batch: [String] = []
        mailbox.take(into: &batch)
        #expect(batch == ["done"])
    }

    @Test("a lock lets one thread in at a time")
    func lock() throws {
        final class Counter: @unchecked Sendable { var value = 0 }
        let (lock, counter) = (Lock(), Counter())
        let threads = try (0..<4).map { _ in
            try Thread(named: "adder") {
                for _ in 0..<10_000 { lock.withLock { counter.value += 1 } }
            }
        }
        for thread in threads { thread.join() }
        #expect(counter.value == 40_000)
    }

    @Test("a poller returns nothing at its deadline")
    func deadline() throws {
        let poller = try Poller()
        let start = MonotonicClock.now()
        #expect(poller.wait(until: start + .milliseconds(5), now: start) == 0)
        #expect(MonotonicClock.now() - start >= .milliseconds(5))
    }

    @Test("a deadline in the past does not wait")
    func pastDeadline() throws {
        let poller = try Poller()
        let now = MonotonicClock.now()
        #expect(poller.wait(until: now - .seconds(5), now: now) == 0)
    }

    @Test("a poller tells which descriptor is ready, and not those that were removed")
    func tokens() throws {
        let poller = try Poller()
        let (a, b) = (try WakeUp(), try WakeUp())
        try poller.add(a.descriptor, token: 10, for: .reading)
        try poller.add(b.descriptor, token: 20, for: .reading)
        a.signal()
        b.signal()
        poller.remove(a.descriptor)
        let now = MonotonicClock.now()
        #expect(poller.wait(until: now + .seconds(1), now: now) == 1)
        let event = poller.event(at: 0)
        #expect(event.token == 20 && event.isReadable && !event.isWritable)
    }

    @Test("an error of a system call names what was tried and why it failed")
    func errorText() {
        #expect(SystemError("bind", code: 98).description == "bind: Address already in use (98)")
    }
}
