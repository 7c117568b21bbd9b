import RTPCore
import Testing

@testable import RelayCore

@Suite("Flow table")
struct FlowTableTests {
    private func longestProbe(_ addresses: [PeerAddress]) -> Int {
        let table = FlowTable(minimumCapacity: 64)
        for (i, address) in addresses.enumerated() { table.set(address, transport: Int32(i), path: 0) }
        return addresses.map(table.probeCount).max() ?? 0
    }

    // Linear probing at most half full: a few tens in the worst of thousands of places when the hash is good, thousands
    // when it is not.
    @Test("clients behind one address, on neighbouring ports, are found in a few steps")
    func portsOfOneAddress() {
        #expect(longestProbe((0..<8_000).map { PeerAddress(ipv4: 0x7F00_0001, port: UInt16(20_000 + $0)) }) < 64)
    }

    @Test("ports in steps of a power of two spread as well", arguments: [2, 4, 8, 16])
    func strides(step: Int) {
        #expect(longestProbe((0..<2_000).map { PeerAddress(ipv4: 0xC000_0201, port: UInt16($0 * step)) }) < 64)
    }

    @Test("neighbouring IPv4 addresses on one port spread")
    func addressesOfOnePort() {
        #expect(longestProbe((0..<8_000).map { PeerAddress(ipv4: 0x0A00_0000 + UInt32($0) * 256, port: 3_478) }) < 64)
    }

    @Test("IPv6 addresses that differ in the prefix or the interface spread")
    func ipv6() {
        let prefixes = (0..<4_000).map {
            PeerAddress(high: 0x2001_0DB8_0000_0000 + UInt64($0) << 16, low: 1, port: 3_478)
        }
        let interfaces = (0..<4_000).map { PeerAddress(high: 0x2001_0DB8_0000_0000, low: UInt64($0) << 24, port: 9) }
        #expect(longestProbe(prefixes) < 64)
        #expect(longestProbe(interfaces) < 64)
    }

    @Test("one address over UDP and over each of its connections are flows of their own")
    func connections() {
        let table = FlowTable(minimumCapacity: 64)
        var address = PeerAddress(ipv4: 0xC000_0201, port: 3_478)
        for connection in 0..<20 {
            address.connection = UInt16(connection)
            table.set(address, transport: Int32(connection), path: 0)
        }
        address.connection = 7
        table.remove(address, ownedBy: 7)
        for connection in 0..<20 {
            address.connection = UInt16(connection)
            #expect(table.find(address)?.transport == (connection == 7 ? nil : Int32(connection)))
        }
    }

    @Test("an address that left is gone and the others stay")
    func removal() {
        let table = FlowTable(minimumCapacity: 64)
        let addresses = (0..<500).map { PeerAddress(ipv4: 0x7F00_0001, port: UInt16(1_000 + $0)) }
        for (i, address) in addresses.enumerated() { table.set(address, transport: Int32(i), path: 0) }
        for (i, address) in addresses.enumerated() where i % 3 == 0 { table.remove(address, ownedBy: Int32(i)) }
        for (i, address) in addresses.enumerated() {
            #expect(table.find(address)?.transport == (i % 3 == 0 ? nil : Int32(i)))
        }
        #expect(table.count == 333)
    }
}
