import Glibc
import RTPCore
import RelayCore

/// The sockets of one worker: every media address on one UDP port, which is free on all of them, and on one TCP port, by
/// default the same.
package struct MediaSockets {
    package let sockets: [UDPSocket]
    package let port: UInt16
    /// Empty where TCP is off.
    package let listeners: [StreamListener]
    package var streamPort: UInt16? { listeners.first?.address.port }

    /// Tries the ports of this worker in their order until one is free on every address.
    package init(_ options: WorkerOptions) throws(SystemError) {
        let ports = Self.ports(index: options.index, count: options.count, first: options.mediaPort)
        let addresses = options.mediaAddresses
        let media = try Self.firstFree(of: ports) {
            (port) throws(SystemError) -> ([UDPSocket], [StreamListener]) in
            let sockets = try Self.open(addresses, port: port)
            guard options.tcp == .mediaPort else { return (sockets, []) }
            return (sockets, try Self.listen(addresses, port: sockets[0].address.port))
        }
        sockets = media.0
        port = sockets[0].address.port
        if case .ports(let first) = options.tcp {
            let ports = Self.ports(index: options.index, count: options.count, first: first)
            listeners = try Self.firstFree(of: ports) { (port) throws(SystemError) in
                try Self.listen(addresses, port: port)
            }
        } else {
            listeners = media.1
        }
    }

    /// The ports that a worker may use, best first: its own, its spare one (its predecessor may still hold
    /// the first), then those of the others. With `first` 0 the kernel chooses; a few tries, as the choice
    /// must be free on each address.
    package static func ports(index: Int, count: Int, first: UInt16) -> [UInt16] {
        guard first != 0 else { return [UInt16](repeating: 0, count: 16) }
        let own = [index, (index + count) % (2 * count)]
        let others = (0..<2 * count).filter { !own.contains($0) }
        return (own + others).map { first + UInt16($0) }
    }

    private static func firstFree<Opened>(
        of ports: [UInt16], _ open: (UInt16) throws(SystemError) -> Opened
    ) throws(SystemError) -> Opened {
        var lastError = SystemError("no media port to try", code: EADDRINUSE)
        for port in ports {
            do throws(SystemError) {
                return try open(port)
            } catch {
                // Another error (no such address, no permission) will not go away with another port.
                guard error.code == EADDRINUSE else { throw error }
                lastError = error
            }
        }
        throw lastError
    }

    private static func open(_ addresses: [String], port: UInt16) throws(SystemError) -> [UDPSocket] {
        var sockets: [UDPSocket] = []
        var port = port
        for text in addresses {
            let socket = try UDPSocket(binding: try address(text, port: port))
            sockets.append(socket)
            port = socket.address.port
        }
        return sockets
    }

    private static func listen(_ addresses: [String], port: UInt16) throws(SystemError) -> [StreamListener] {
        var listeners: [StreamListener] = []
        for text in addresses { listeners.append(try StreamListener(binding: try address(text, port: port))) }
        return listeners
    }

    private static func address(_ text: String, port: UInt16) throws(SystemError) -> PeerAddress {
        guard let address = PeerAddress(address: text, port: port) else {
            throw SystemError("media address \(text)", code: EINVAL)
        }
        return address
    }
}

extension WorkerEndpoint {
    /// What a worker tells clients: the announced addresses (or the bound ones) with its ports.
    init(_ options: WorkerOptions, media: MediaSockets, fingerprint: [UInt8]) {
        let addresses =
            options.announcedAddresses.isEmpty ? options.mediaAddresses : options.announcedAddresses
        var candidates = addresses.map { Candidate(address: $0, port: media.port) }
        if let port = media.streamPort {
            candidates += addresses.map { Candidate(address: $0, port: port, isStream: true) }
        }
        self.init(candidates: candidates, fingerprint: fingerprint)
    }
}
