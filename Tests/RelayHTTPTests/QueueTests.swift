import RelayHTTP
import Testing

/// The two queues of the loop, without a socket.
struct QueueTests {
    @Test("deadlines come out in the order of time, and only when their time has come")
    func deadlineOrder() {
        var queue = DeadlineQueue()
        var state: UInt64 = 88_172_645_463_325_252
        var times: [UInt64] = []
        for index in 0..<500 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            times.append(state % 1000)
            queue.insert(.init(time: state % 1000, key: ConnectionKey(slot: UInt32(index), generation: 0)))
        }
        var taken: [UInt64] = []
        while let entry = queue.take(until: 499) { taken.append(entry.time) }
        #expect(taken == times.filter { $0 <= 499 }.sorted())
        #expect(queue.first == times.filter { $0 > 499 }.min())
        #expect(queue.count == times.count - taken.count)
    }

    @Test("a connection key survives the way through epoll")
    func keys() {
        let key = ConnectionKey(slot: 0x8000_0001, generation: .max)
        #expect(ConnectionKey(rawValue: key.rawValue) == key)
    }

    @Test("the key of a removed connection finds nothing, also when another one has its slot")
    func generations() {
        var table = ConnectionTable<String>()
        var keys: [ConnectionKey] = []
        func insert(_ name: String) {
            _ = table.insert { key in
                keys.append(key)
                return name
            }
        }
        insert("first")
        insert("second")
        table.remove(keys[0])
        #expect(table[keys[0]] == nil && table[keys[1]] == "second")
        insert("third")
        #expect(keys[2].slot == keys[0].slot)
        #expect(table[keys[0]] == nil && table[keys[2]] == "third")
        #expect(table.count == 2 && table.capacity == 2 && table.all.sorted() == ["second", "third"])
    }

    @Test(
        "an output queue gives its bytes back in order, whatever is taken at a time",
        arguments: [1, 3, 10, 1000])
    func outputOrder(step: Int) {
        var queue = OutputQueue()
        var expected: [UInt8] = []
        for index in 0..<200 {
            let piece = [UInt8](repeating: UInt8(index), count: index % 7)
            queue.append(piece)
            expected += piece
        }
        #expect(
            queue.byteCount == expected.count + OutputQueue.pieceByteCount
                * (0..<200).filter { $0 % 7 != 0 }.count)
        var received: [UInt8] = []
        while !queue.isEmpty {
            let piece = queue.withFirst { Array($0.prefix(step)) }
            received += piece
            queue.removeFirst(piece.count)
        }
        #expect(received == expected)
        #expect(queue.byteCount == 0)
    }
}
