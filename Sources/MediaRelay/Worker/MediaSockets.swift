import Glibc
import RTPCore
import RelayCore

/// The UDP sockets of one worker: every media address on one port, which is free on all of them.
package struct MediaSockets {
    package let sockets: [UDPSocket]
    package let port: UInt16

    /// Tries the ports of this worker in their order until one is free on every address.
    package init(_ options: WorkerOptions) throws(SystemError) {
        var lastError = SystemError("no media port to try", code: EADDRINUSE)
        for port in Self.ports(index: options.index, count: options.count, first: options.mediaPort) {
            do throws(SystemError) {
                sockets = try Self.open(options.mediaAddresses, port: port)
                self.port = sockets[0].address.port
                return
            } catch {
                // Another error (no such address, no permission) will not go away with another port.
                guard error.code == EADDRINUSE else { throw error }
                lastError = error
            }
        }
        throw lastError
    }

    /// The ports that a worker may use, best first: its own, its spare one (its predecessor may still hold
    /// the first), then those of the others. With `first` 0 the kernel chooses; a few tries, as the choice
    /// must be free on each address.
    package static func ports(index: Int, count: Int, first: UInt16) -> [UInt16] {
        guard first != 0 else { return [UInt16](repeating: 0, count: 16) }
        let own = [index, count + index]
        let others = (0..<2 * count).filter { !own.contains($0) }
        return (own + others).map { first + UInt16($0) }
    }

    private static func open(_ addresses: [String], port: UInt16) throws(SystemError) -> [UDPSocket] {
        var sockets: [UDPSocket] = []
        var port = port
        for text in addresses {
            guard let address = PeerAddress(address: text, port: port) else {
                throw SystemError("media address \(text)", code: EINVAL)
            }
            let socket = try UDPSocket(binding: address)
            sockets.append(socket)
            port = socket.address.port
        }
        return sockets
    }
}

extension WorkerEndpoint {
    /// What a worker tells clients: the announced addresses (or the bound ones) with its port.
    init(_ options: WorkerOptions, port: UInt16, fingerprint: [UInt8]) {
        let addresses =
            options.announcedAddresses.isEmpty ? options.mediaAddresses : options.announcedAddresses
        self.init(
            candidates: addresses.map { Candidate(address: $0, port: port) }, fingerprint: fingerprint)
    }
}
