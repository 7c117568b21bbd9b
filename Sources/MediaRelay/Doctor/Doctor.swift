import RTPCore

/// Judges whether a node with these options would run well on this host, and says what to do where not. Pure: facts come from
/// `HostProbe`.
package enum Doctor {
    package static func findings(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        ports(options, facts) + announced(options, facts) + outside(options, facts) + host(facts)
            + files(options, facts)
    }

    // MARK: Ports

    private static func ports(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        var findings = options.http.map { endpoint in
            listener("http", endpoint.text, facts.http[endpoint.text] ?? .free, facts)
        }
        if let admin = options.admin { findings.append(listener("admin", admin.text, facts.admin ?? .free, facts)) }
        findings.append(range("media-udp", "UDP", facts.mediaUDP, options, facts))
        if options.mediaTCP == .off {
            findings.append(Finding("media-tcp", .ok, "off: clients whose network has no UDP cannot call"))
        } else {
            findings.append(range("media-tcp", "TCP", facts.mediaTCP, options, facts))
        }
        return findings
    }

    private static func listener(
        _ option: String, _ endpoint: String, _ binding: HostFacts.Binding, _ facts: HostFacts
    ) -> Finding {
        if case .taken = binding, let processID = facts.runningProcess {
            return Finding(option, .ok, "\(endpoint) is used by the node that runs (pid \(processID))")
        }
        guard let (words, advice) = obstacle(binding, "--\(option)") else {
            return Finding(option, .ok, "\(endpoint) is free")
        }
        return Finding(option, .fail, "\(endpoint) \(words)", advice: advice)
    }

    /// What speaks against a port, and what to do; nil: nothing.
    private static func obstacle(_ binding: HostFacts.Binding, _ option: String) -> (String, String)? {
        switch binding {
        case .free: nil
        case .taken:
            ("is taken by another program", "stop that one (ss -lnptu shows it), or choose another port by \(option)")
        case .forbidden:
            (
                "is not allowed to this user",
                "choose a port above 1023 by \(option), or give the capability CAP_NET_BIND_SERVICE"
            )
        case .noSuchAddress: ("is no address of this host", "name one that `ip address` shows, by \(option)")
        case .failed(let cause): ("cannot be bound: \(cause)", "change \(option)")
        }
    }

    private static func range(
        _ check: String, _ name: String, _ range: HostFacts.Range?, _ options: ServeOptions, _ facts: HostFacts
    ) -> Finding {
        guard let range else { return Finding(check, .ok, "any free \(name) ports") }
        let last = Int(range.first) + range.count - 1
        let words = "\(range.free) of the \(name) ports \(range.first)–\(last) are free"
        if range.free >= options.workers {
            return Finding(
                check, .ok, "\(words), \(options.workers) are needed at a time",
                advice: "open all of them in firewalls: the spare ones serve an upgrade")
        }
        if facts.runningProcess != nil, range.obstacle == .taken {
            return Finding(check, .ok, "\(words); the node that runs has the others")
        }
        let (cause, advice) =
            range.obstacle.flatMap { obstacle($0, "--media") } ?? ("are taken", "choose others by --media")
        return Finding(check, .fail, "\(words), \(options.workers) are needed: one \(cause)", advice: advice)
    }

    // MARK: Addresses

    private static func announced(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        var addresses = options.announce
        if addresses.isEmpty {
            let isWildcard = options.media.contains { PeerAddress(address: $0.address, port: 0)?.isWildcard == true }
            addresses = isWildcard ? facts.localAddresses : options.media.map(\.address)
        }
        let kinds = addresses.map { AddressKind(of: $0) }
        var findings: [Finding] = []
        for (address, kind) in zip(addresses, kinds) where kind == .unusable {
            findings.append(
                Finding("announce", .fail, "\(address) is no address of one host", advice: "change --announce"))
        }
        let foreign = addresses.filter { !facts.localAddresses.contains($0) && AddressKind(of: $0) != .unusable }
        if !foreign.isEmpty {
            findings.append(
                Finding(
                    "announce", .ok, "\(foreign.joined(separator: ", ")): not on this host, so behind NAT",
                    advice: "the router must forward the media ports to this host, unchanged"))
        }
        let usable = zip(addresses, kinds).filter { $1 != .unusable }
        if usable.isEmpty {
            findings.append(
                Finding("announce", .fail, "no address to tell clients", advice: "name one by --announce"))
        } else if usable.allSatisfy({ $1 == .loopback }) {
            findings.append(
                Finding(
                    "announce", .warn, "\(list(usable)): clients on this machine only",
                    advice: "name by --announce what clients reach"))
        } else if usable.allSatisfy({ $1 != .global }) {
            findings.append(
                Finding(
                    "announce", .warn, "\(list(usable)): clients of the same network only",
                    advice: "for others, name the public address by --announce"))
        } else if foreign.isEmpty {
            findings.append(Finding("announce", .ok, list(usable)))
        }
        return findings
    }

    /// What a STUN server sees against what clients are told.
    private static func outside(_ options: ServeOptions, _ facts: HostFacts) -> [Finding] {
        switch facts.outside {
        case nil: return []
        case .failed(let cause):
            return [
                Finding(
                    "outside", .warn, "not seen from outside: \(cause)",
                    advice: "let UDP out to the STUN server, or name another one by --stun HOST:PORT")
            ]
        case .seen(let addresses):
            let told = options.announce.isEmpty ? facts.localAddresses : options.announce
            let missing = addresses.filter { !told.contains($0) }
            guard missing.isEmpty else {
                let words = missing.joined(separator: ", ")
                return [
                    Finding(
                        "outside", .warn, "seen from outside as \(words), which clients are not told",
                        advice: missing.map { "--announce \($0)" }.joined(separator: " ")
                            + ", and let the router forward the media ports to this host")
                ]
            }
            return [
                Finding(
                    "outside", .ok, "seen from outside as \(addresses.joined(separator: ", ")), which clients are told",
                    advice: "whether the media ports are open from there, only a client from there can tell")
            ]
        }
    }

    private static func list(_ addresses: [(String, AddressKind)]) -> String {
        addresses.map(\.0).joined(separator: ", ")
    }

    // MARK: The host

    private static func host(_ facts: HostFacts) -> [Finding] {
        [buffers(facts), descriptors(facts), clock(facts), cipher(facts), kernel(facts)]
    }

    private static func buffers(_ facts: HostFacts) -> Finding {
        let wanted = Int(UDPSocket.bufferByteCount)
        let got = min(facts.receiveBufferByteCount, facts.sendBufferByteCount)
        let words = "\(got / 1_024) KiB of \(wanted / 1_024) KiB for each media socket"
        guard got < wanted else { return Finding("socket-buffers", .ok, words) }
        return Finding(
            "socket-buffers", .warn, words + ": bursts are lost",
            advice: "sysctl -w net.core.rmem_max=\(wanted) net.core.wmem_max=\(wanted), and in /etc/sysctl.d")
    }

    /// Event streams, connections and the node's own at the server's limits.
    private static let wantedDescriptors: Int64 = 24_576

    private static func descriptors(_ facts: HostFacts) -> Finding {
        let words = "a process may have \(facts.descriptorLimit) files open"
        guard facts.descriptorLimit < wantedDescriptors else { return Finding("open-files", .ok, words) }
        let status: Finding.Status = facts.descriptorLimit < 1_024 ? .fail : .warn
        return Finding(
            "open-files", status, words + "; a busy node needs \(wantedDescriptors)",
            advice: "LimitNOFILE=\(wantedDescriptors) in the unit, or ulimit -Hn")
    }

    private static func clock(_ facts: HostFacts) -> Finding {
        let time = Timestamp.text(ofMs: facts.wallClockMs)
        // 2025-01-01: before this program was written.
        guard facts.wallClockMs >= 1_735_689_600_000 else {
            return Finding(
                "clock", .fail, "it is \(time) here: tokens and certificates are judged by this",
                advice: "set the clock; install chrony or systemd-timesyncd")
        }
        if facts.isClockSynchronised == false {
            return Finding(
                "clock", .warn, "\(time), and nothing keeps it right: tokens are judged by it",
                advice: "install chrony or systemd-timesyncd")
        }
        if ["hpet", "acpi_pm", "jiffies"].contains(facts.clockSource) {
            return Finding(
                "clock", .warn, "\(time), read from \(facts.clockSource), which is slow",
                advice: "let the kernel use tsc, or the hypervisor its own clock")
        }
        return Finding("clock", .ok, "\(time), \(facts.clockSource)")
    }

    private static func cipher(_ facts: HostFacts) -> Finding {
        if let fault = facts.cipherFault {
            return Finding(
                "cipher", .fail, "the self-test failed: \(fault)",
                advice: "no media can be trusted here: reinstall libcrypto (libssl3) and libipsec-mb1")
        }
        let words = "\(facts.cipher), proven by known answers and against libsrtp"
        if facts.isX86, !facts.hasAES {
            return Finding("cipher", .warn, words + "; this CPU has no AES instructions", advice: "use another machine")
        }
        if facts.isX86, facts.cipher != "ipsec-mb" {
            return Finding("cipher", .warn, words + ": the slower one", advice: "install libipsec-mb1")
        }
        return Finding("cipher", .ok, words)
    }

    private static func kernel(_ facts: HostFacts) -> Finding {
        let numbers = facts.kernel.split(whereSeparator: { !$0.isNumber }).prefix(2).compactMap { Int($0) }
        // pidfd_open, by which control watches its workers.
        guard numbers.count == 2, (numbers[0], numbers[1]) >= (5, 3) else {
            return Finding("kernel", .fail, "Linux \(facts.kernel)", advice: "Linux 5.3 or later is needed")
        }
        guard facts.canSegment else {
            return Finding(
                "kernel", .warn, "Linux \(facts.kernel) without UDP segmentation: more work for each packet",
                advice: "allow the socket option UDP_SEGMENT (some sandboxes and old kernels do not)")
        }
        return Finding("kernel", .ok, "Linux \(facts.kernel), with UDP segmentation")
    }
}

/// How far an address reaches.
enum AddressKind: Hashable, Sendable {
    case global
    /// Of private networks, of carriers, or of one link.
    case local
    case loopback
    /// No address of a host.
    case unusable

    init(of text: String) {
        guard let address = PeerAddress(address: text, port: 0), !address.isWildcard else {
            self = .unusable
            return
        }
        self = address.isIPv4 ? Self.kind(ofIPv4: address.ipv4) : Self.kind(address.high, address.low)
    }

    private static func kind(ofIPv4 number: UInt32) -> AddressKind {
        switch (number >> 24, number >> 16 & 0xFF) {
        case (127, _): .loopback
        case (10, _), (172, 16...31), (192, 168), (169, 254), (100, 64...127): .local
        case (0, _), (224..., _): .unusable
        default: .global
        }
    }

    private static func kind(_ high: UInt64, _ low: UInt64) -> AddressKind {
        if high == 0, low == 1 { return .loopback }
        switch high >> 56 {
        case 0xFF: return .unusable
        case 0xFC, 0xFD: return .local
        case 0xFE where high >> 54 & 0x3FF == 0x3FA: return .local
        default: return .global
        }
    }
}
