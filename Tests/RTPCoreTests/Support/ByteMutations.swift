/// Calls `read` with every prefix of `bytes` and with every copy in which one byte is inverted, zeroed or 0xFF: a reader that
/// traps on any of them ends the run. Returns how many inputs were read.
func readEveryMutation(of bytes: [UInt8], _ read: ([UInt8]) -> Void) -> Int {
    var count = 0
    for length in 0...bytes.count {
        read(Array(bytes[..<length]))
        count += 1
    }
    for index in bytes.indices {
        for value in [~bytes[index], 0, 0xFF, bytes[index] ^ 1, bytes[index] ^ 0x80] {
            var changed = bytes
            changed[index] = value
            read(changed)
            count += 1
        }
    }
    return count
}
