import CLinuxIO
import CMediaCrypto
import Foundation
import Glibc
import RTPCore
import RelayCore

/// Looks at the host for a node with given options. Binds ports for a moment and lets them go; changes nothing, judges nothing.
package enum HostProbe {
    /// - Parameter stun: a server to ask where we come from, `HOST:PORT`; nil: nobody is asked.
    package static func facts(for options: ServeOptions, stun: String? = nil) -> HostFacts {
        var facts = HostFacts()
        for endpoint in options.http { facts.http[endpoint.text] = listening(endpoint.address, endpoint.port) }
        facts.admin = options.admin.map { listening($0.address, $0.port) }
        probePorts(options, &facts)
        facts.runningProcess = runningProcess(data: options.data)
        facts.localAddresses = LocalAddresses.up()
        probeBuffers(&facts)
        facts.descriptorLimit = lio_descriptor_limit()
        probeClock(&facts)
        probeCipher(&facts)
        facts.kernel = text(of: "/proc/sys/kernel/osrelease")
        facts.canSegment = lio_can_segment() == 1
        facts.data = folder(options.data)
        facts.recordings = options.recordings.map { folder($0) }
        facts.outside = stun.map { StunProbe.ask($0) }
        if let certificate = options.tlsCertificate, let key = options.tlsKey {
            facts.certificate = CertificateFacts(certificate: certificate, key: key)
        }
        let secrets =
            options.keys.compactMap { file(in: $0, behind: ":") }
            + options.webhookSecrets.compactMap { file(in: $0, behind: "=") } + (options.tlsKey.map { [$0] } ?? [])
        facts.keyFiles = secrets.map(file)
        return facts
    }

    // MARK: Ports

    private static func listening(_ address: String, _ port: UInt16) -> HostFacts.Binding {
        binding(address, port) { address throws(SystemError) in _ = try StreamListener(binding: address) }
    }

    private static func datagrams(_ address: String, _ port: UInt16) -> HostFacts.Binding {
        binding(address, port) { address throws(SystemError) in _ = try UDPSocket(binding: address) }
    }

    private static func binding(
        _ text: String, _ port: UInt16, _ bind: (PeerAddress) throws(SystemError) -> Void
    ) -> HostFacts.Binding {
        guard let address = PeerAddress(address: text, port: port) else { return .failed("\(text) is no IP address") }
        do throws(SystemError) {
            try bind(address)
            return .free
        } catch {
            switch error.code {
            case EADDRINUSE: return .taken
            case EACCES, EPERM: return .forbidden
            case EADDRNOTAVAIL: return .noSuchAddress
            default: return .failed("\(error)")
            }
        }
    }

    private static func probePorts(_ options: ServeOptions, _ facts: inout HostFacts) {
        let (addresses, count) = (options.media.map(\.address), 2 * options.workers)
        let first = options.media[0].port
        facts.mediaUDP = range(first, count, addresses, datagrams)
        switch options.mediaTCP {
        case .off: break
        case .mediaPort: facts.mediaTCP = range(first, count, addresses, listening)
        case .ports(let first): facts.mediaTCP = range(first, count, addresses, listening)
        }
    }

    /// Nil where the kernel chooses.
    private static func range(
        _ first: UInt16, _ count: Int, _ addresses: [String], _ probe: (String, UInt16) -> HostFacts.Binding
    ) -> HostFacts.Range? {
        guard first != 0 else { return nil }
        var range = HostFacts.Range(first: first, count: count, free: 0, obstacle: nil)
        for offset in 0..<count {
            guard let port = UInt16(exactly: Int(first) + offset) else {
                range.obstacle = .failed("port \(Int(first) + offset) does not exist")
                break
            }
            var obstacle: HostFacts.Binding?
            for address in addresses where obstacle == nil {
                let binding = probe(address, port)
                if binding != .free { obstacle = binding }
            }
            if let obstacle { range.obstacle = obstacle } else { range.free += 1 }
        }
        return range
    }

    /// Whose control process holds the data folder, by what it noted there.
    private static func runningProcess(data: String) -> Int32? {
        let noted = text(of: data + "/control.lock")
        guard let processID = Int32(noted), processID > 1 else { return nil }
        let arguments = FileManager.default.contents(atPath: "/proc/\(processID)/cmdline") ?? Data()
        return arguments.split(separator: 0).contains { $0.elementsEqual("serve".utf8) } ? processID : nil
    }

    // MARK: The host

    private static func probeBuffers(_ facts: inout HostFacts) {
        let descriptor = lio_udp_socket(1, 0)
        guard descriptor >= 0 else { return }
        defer { Syscall.close(descriptor) }
        var (received, sent): (Int32, Int32) = (0, 0)
        _ = lio_set_buffers(descriptor, UDPSocket.bufferByteCount, UDPSocket.bufferByteCount)
        guard lio_buffers(descriptor, &received, &sent) == 0 else { return }
        (facts.receiveBufferByteCount, facts.sendBufferByteCount) = (Int(received), Int(sent))
    }

    private static func probeClock(_ facts: inout HostFacts) {
        facts.wallClockMs = WallClock.nowMs
        let state = lio_clock_is_synchronised()
        facts.isClockSynchronised = state < 0 ? nil : state == 1
        facts.clockSource = text(of: "/sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    private static func probeCipher(_ facts: inout HostFacts) {
        do throws(SRTPSelfTest.Failure) {
            try SRTPSelfTest.run()
        } catch {
            facts.cipherFault = error.description
        }
        facts.cipher = String(cString: mc_backend_name())
        #if arch(x86_64)
            facts.isX86 = true
            facts.hasAES = text(of: "/proc/cpuinfo").range(of: "\\baes\\b", options: .regularExpression) != nil
        #endif
    }

    // MARK: Files

    private static func folder(_ path: String) -> HostFacts.Folder {
        var folder = HostFacts.Folder(path: path)
        var status = stat()
        folder.exists = stat(path, &status) == 0
        if folder.exists {
            if status.st_mode & S_IFMT != S_IFDIR {
                folder.fault = "is not a folder"
            } else if status.st_uid != geteuid() {
                folder.fault = "belongs to another user"
            } else if status.st_mode & 0o022 != 0 {
                folder.fault = "is writable by other users"
            }
        }
        // Where it is not there yet, what it will be made in.
        var base = path
        while access(base, F_OK) != 0, base != "/", !base.isEmpty {
            base = (base as NSString).deletingLastPathComponent
        }
        if base.isEmpty { base = "." }
        if folder.fault == nil, access(base, W_OK | X_OK) != 0 {
            folder.fault = base == path ? "cannot be written to" : "cannot be made: \(base) cannot be written to"
        }
        var space = statvfs()
        if statvfs(base, &space) == 0 { folder.freeByteCount = Int64(clamping: space.f_bavail * space.f_frsize) }
        folder.filesystem = filesystem(of: UInt32(truncatingIfNeeded: max(0, lio_filesystem_type(base))))
        return folder
    }

    /// By the numbers of statfs(2).
    private static func filesystem(of type: UInt32) -> HostFacts.Filesystem {
        switch type {
        case 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x517B, 0x0102_1997, 0x00C3_6400, 0x5346_414F: .network
        case 0x0102_1994, 0x8584_58F6: .memory
        default: .local
        }
    }

    private static func file(in value: String, behind mark: Character) -> String? {
        guard let end = value.firstIndex(of: mark) else { return nil }
        let rest = value[value.index(after: end)...]
        return rest.hasPrefix("@") ? String(rest.dropFirst()) : nil
    }

    private static func file(_ path: String) -> HostFacts.File {
        var status = stat()
        let isThere = stat(path, &status) == 0
        return HostFacts.File(
            path: path, isReadable: access(path, R_OK) == 0, isOpenToOthers: isThere && status.st_mode & 0o004 != 0)
    }

    private static func text(of path: String) -> String {
        guard let data = FileManager.default.contents(atPath: path) else { return "" }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
