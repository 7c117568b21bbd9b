import CLinuxIO
import Glibc
import RTPCore

/// Asks a STUN server (RFC 8489) from which address this host's datagrams come to it: the one view from outside that can be had without help
/// by a client. Sends three requests at most, and only where the operator names a server.
enum StunProbe {
    private static let tries = 3
    private static let waitMs: Int32 = 700

    /// - Parameter server: `HOST:PORT`; names are looked up.
    /// - Returns: by family what was seen, or why nothing was.
    static func ask(_ server: String) -> HostFacts.OutsideView {
        guard let colon = server.lastIndex(of: ":"), let port = UInt16(server[server.index(after: colon)...]), port > 0
        else { return .failed("\(server) is not HOST:PORT") }
        var host = String(server[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0 else { return .failed("\(host) is not known") }
        defer { freeaddrinfo(list) }
        var seen: [String] = []
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            if let address = ask(entry.pointee), !seen.contains(address) { seen.append(address) }
        }
        return seen.isEmpty ? .failed("\(server) did not answer") : .seen(seen)
    }

    private static func ask(_ entry: addrinfo) -> String? {
        let descriptor = socket(entry.ai_family, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { Syscall.close(descriptor) }
        guard connect(descriptor, entry.ai_addr, entry.ai_addrlen) == 0 else { return nil }
        var random = SystemRandomNumberGenerator()
        let transaction = STUNTransactionID(high: random.next(), low: random.next())
        let request = [UInt8](capacity: STUN.headerByteCount) { out in
            _ = STUNWriter(.request, transactionID: transaction, to: &out)
        }
        for _ in 0..<tries {
            guard send(descriptor, request, request.count, 0) == request.count else { return nil }
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, waitMs) > 0 else { continue }
            var answer = [UInt8](repeating: 0, count: 1_500)
            let count = recv(descriptor, &answer, answer.count, 0)
            guard count > 0 else { continue }
            let bytes = Array(answer[..<count])
            guard let message = STUNMessage(bytes.span), message.transactionID == transaction,
                let mapped = message.mappedAddress
            else { continue }
            return mapped.addressText
        }
        return nil
    }
}
