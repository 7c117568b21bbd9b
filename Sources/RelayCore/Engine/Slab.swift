/// Values of one kind in one block of memory, reached by index. Indices of freed values are used again. Memory is touched
/// only as far as it was ever used. One thread.
final class Slab<Element> {
    private let base: UnsafeMutablePointer<Element>
    private let capacity: Int32
    private var used: Int32 = 0
    private var free: [Int32] = []

    init(capacity: Int) {
        base = .allocate(capacity: capacity)
        self.capacity = Int32(capacity)
    }

    /// Elements are trivial or give up what they own before `remove`; the block itself needs no deinitialisation.
    deinit { base.deallocate() }

    var count: Int { Int(used) - free.count }

    @inline(__always) subscript(index: Int32) -> UnsafeMutablePointer<Element> {
        assert(index >= 0 && index < used, "slab index out of range")
        return base + Int(index)
    }

    /// Stores `element`; nil when the slab is full.
    func insert(_ element: Element) -> Int32? {
        if let index = free.popLast() {
            (base + Int(index)).initialize(to: element)
            return index
        }
        guard used < capacity else { return nil }
        (base + Int(used)).initialize(to: element)
        used += 1
        return used - 1
    }

    func remove(_ index: Int32) {
        (base + Int(index)).deinitialize(count: 1)
        free.append(index)
    }
}
