import Foundation
import Glibc
import RTPCore
import Testing

@testable import MediaRelay
@testable import RelayCommands

@Suite("Doctor") struct DoctorTests {
    /// A host on which nothing is wrong.
    private var healthy: HostFacts {
        var facts = HostFacts()
        facts.http = ["127.0.0.1:8080": .free]
        facts.admin = .free
        facts.mediaUDP = .init(first: 40_000, count: 4, free: 4, obstacle: nil)
        facts.mediaTCP = facts.mediaUDP
        facts.localAddresses = ["203.0.113.7", "127.0.0.1"]
        (facts.receiveBufferByteCount, facts.sendBufferByteCount) = (4 << 20, 4 << 20)
        facts.descriptorLimit = 524_288
        facts.wallClockMs = 1_796_119_200_000
        facts.isClockSynchronised = true
        facts.clockSource = "tsc"
        facts.cipher = "ipsec-mb"
        facts.isX86 = true
        facts.kernel = "6.1.0-42-amd64"
        facts.canSegment = true
        facts.data = .init(path: "/d", exists: true, fault: nil, freeByteCount: 1 << 40, filesystem: .local)
        return facts
    }

    private func options(_ arguments: [String] = []) throws -> ServeOptions {
        try ServeOptions(
            arguments: ["--key", "k:@" + Self.keyFile, "--workers", "2"] + arguments, environment: ["HOME": "/h"],
            processors: 4)
    }

    private static let keyFile: String = {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("doctor-key-\(getpid())").path
        _ = FileManager.default.createFile(
            atPath: path, contents: Data("0123456789abcdef0123456789abcdef\n".utf8),
            attributes: [.posixPermissions: 0o600])
        return path
    }()

    @Test("an address that is seen from outside and told to nobody is to be announced")
    func outside() throws {
        #expect(try status("outside") == nil)
        #expect(try status("outside") { $0.outside = .seen(["203.0.113.7"]) } == .ok)
        let found = try findings("outside") { $0.outside = .seen(["198.51.100.9"]) }
        #expect(found.map(\.status) == [.warn] && found[0].advice?.contains("--announce 198.51.100.9") == true)
        #expect(try status("outside", ["--announce", "198.51.100.9"]) { $0.outside = .seen(["198.51.100.9"]) } == .ok)
        #expect(try status("outside") { $0.outside = .failed("s:1 did not answer") } == .warn)
    }

    @Test("a STUN server is asked and its answer read; one that is not there is said so")
    func stun() throws {
        let server = try UDPSocket(binding: PeerAddress(ipv4: 0x7F00_0001, port: 0))
        let port = server.address.port
        let descriptor = server.descriptor
        let thread = try Thread(named: "stun") {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, 10_000) > 0 else { return }
            var request = [UInt8](repeating: 0, count: 100)
            var from = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &from) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &request, request.count, 0, $0, &length)
                }
            }
            let bytes = Array(request.prefix(max(0, count)))
            guard count == 20, let message = STUNMessage(bytes.span) else { return }
            let answer = [UInt8](capacity: 64) { out in
                var writer = STUNWriter(.success, transactionID: message.transactionID, to: &out)
                writer.appendMappedAddress(PeerAddress(ipv4: 0xC633_6409, port: 4_000), to: &out)
            }
            _ = withUnsafePointer(to: &from) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(descriptor, answer, answer.count, 0, $0, length)
                }
            }
        }
        #expect(StunProbe.ask("127.0.0.1:\(port)") == .seen(["198.51.100.9"]))
        thread.join()
        #expect(StunProbe.ask("here") == .failed("here is not HOST:PORT"))
    }

    @Test("recordings: a folder that can not be used, and a disk without room for one")
    func recordings() throws {
        let folder = HostFacts.Folder(path: "/r", exists: true, fault: nil, freeByteCount: 1 << 40, filesystem: .local)
        #expect(try status("recordings") == nil)
        #expect(try status("recordings", ["--recordings", "/r"]) { $0.recordings = folder } == .ok)
        #expect(
            try status("recordings", ["--recordings", "/r"]) {
                $0.recordings = folder
                $0.recordings?.freeByteCount = 1 << 20
            } == .warn)
        #expect(
            try status("recordings", ["--recordings", "/r"]) {
                $0.recordings = folder
                $0.recordings?.fault = "is not a folder"
            } == .fail)
    }

    /// The findings of a check on a host that differs from a healthy one.
    private func findings(
        _ check: String, _ arguments: [String] = [], _ change: (inout HostFacts) -> Void = { _ in }
    ) throws -> [Finding] {
        var facts = healthy
        change(&facts)
        return Doctor.findings(try options(arguments), facts).filter { $0.check == check }
    }

    private func status(
        _ check: String, _ arguments: [String] = [], _ change: (inout HostFacts) -> Void = { _ in }
    ) throws -> Finding.Status? {
        let all = try findings(check, arguments, change)
        for finding in all where finding.status != .ok { #expect(finding.advice != nil, "\(finding)") }
        return all.map(\.status).max { $0 == .ok || ($0 == .warn && $1 == .fail) }
    }

    @Test("a good host has nothing to improve") func good() throws {
        let findings = Doctor.findings(try options(), healthy)
        #expect(findings.allSatisfy { $0.status == .ok }, "\(findings)")
        #expect(
            findings.map(\.check) == [
                "http", "admin", "media-udp", "media-tcp", "announce", "socket-buffers", "open-files", "clock",
                "cipher",
                "kernel", "data", "keys",
            ])
    }

    @Test("a port that is taken, forbidden or of no own address fails, unless the node itself has it") func ports()
        throws
    {
        for binding in [HostFacts.Binding.taken, .forbidden, .noSuchAddress, .failed("x")] {
            #expect(try status("http") { $0.http["127.0.0.1:8080"] = binding } == .fail)
            #expect(try status("admin") { $0.admin = binding } == .fail)
        }
        #expect(
            try status("http") {
                $0.http["127.0.0.1:8080"] = .taken
                $0.runningProcess = 4_711
            } == .ok)
    }

    @Test("of the media ports as many must be free as there are workers") func mediaPorts() throws {
        func free(_ count: Int, _ process: Int32? = nil) throws -> Finding.Status? {
            try status("media-udp") {
                $0.mediaUDP = .init(first: 40_000, count: 4, free: count, obstacle: .taken)
                $0.runningProcess = process
            }
        }
        #expect(try free(2) == .ok && free(1) == .fail && free(1, 4_711) == .ok)
        #expect(try status("media-tcp") { $0.mediaTCP?.free = 0 } == .fail)
        #expect(try status("media-tcp", ["--media-tcp", "off"]) { $0.mediaTCP = nil } == .ok)
    }

    @Test("announced addresses: own and public is good, private or loopback only is told, nonsense fails")
    func announce()
        throws
    {
        func status(_ announced: [String], own: [String] = []) throws -> Finding.Status? {
            try self.status("announce", announced.flatMap { ["--announce", $0] }) { $0.localAddresses = own }
        }
        #expect(try status([], own: ["192.168.1.5", "127.0.0.1"]) == .warn && status([], own: ["127.0.0.1"]) == .warn)
        #expect(try status([]) == .fail && status(["224.0.0.1"]) == .fail && status(["0.0.0.0"]) == .fail)
        #expect(try status(["203.0.113.7"], own: ["10.0.0.1"]) == .ok)
        let findings = try findings("announce", ["--announce", "203.0.113.9"])
        #expect(findings.count == 1 && findings[0].detail.contains("NAT") && findings[0].advice != nil)
    }

    @Test(
        "addresses are told apart by how far they reach",
        arguments: [
            ("127.0.0.1", AddressKind.loopback), ("::1", .loopback), ("10.1.2.3", .local), ("172.31.0.1", .local),
            ("172.32.0.1", .global), ("100.64.0.1", .local), ("169.254.1.1", .local), ("8.8.8.8", .global),
            ("239.1.1.1", .unusable), ("0.0.0.0", .unusable), ("::", .unusable), ("fd00::1", .local),
            ("fe80::1", .local),
            ("2001:db8::1", .global), ("ff02::1", .unusable), ("here", .unusable),
        ])
    func kinds(_ text: String, _ kind: AddressKind) { #expect(AddressKind(of: text) == kind) }

    @Test("what the host lacks is told with what to do") func host() throws {
        #expect(try status("socket-buffers") { $0.sendBufferByteCount = 212_992 } == .warn)
        #expect(try status("open-files") { $0.descriptorLimit = 4_096 } == .warn)
        #expect(try status("open-files") { $0.descriptorLimit = 512 } == .fail)
        #expect(try status("clock") { $0.isClockSynchronised = false } == .warn)
        #expect(try status("clock") { $0.isClockSynchronised = nil } == .ok)
        #expect(try status("clock") { $0.wallClockMs = 0 } == .fail)
        #expect(try status("clock") { $0.clockSource = "hpet" } == .warn)
        #expect(try status("cipher") { $0.cipherFault = "RFC 7714" } == .fail)
        #expect(try status("cipher") { $0.cipher = "openssl-evp" } == .warn)
        #expect(
            try status("cipher") {
                $0.cipher = "openssl-evp"
                $0.isX86 = false
            } == .ok)
        #expect(try status("cipher") { $0.hasAES = false } == .warn)
        #expect(try status("kernel") { $0.canSegment = false } == .warn)
        #expect(try status("kernel") { $0.kernel = "4.19.0" } == .fail && status("kernel") { $0.kernel = "" } == .fail)
    }

    @Test("a data folder must be writable, local and roomy") func data() throws {
        #expect(try status("data") { $0.data.fault = "belongs to another user" } == .fail)
        #expect(try status("data") { $0.data.filesystem = .network } == .fail)
        #expect(try status("data") { $0.data.filesystem = .memory } == .warn)
        #expect(try status("data") { $0.data.freeByteCount = 1 << 20 } == .fail)
        #expect(try status("data") { $0.data.freeByteCount = 1 << 30 } == .warn)
        #expect(try status("data", ["--retain-mebibytes", "10"]) { $0.data.freeByteCount = 2 << 30 } == .ok)
    }

    @Test("a certificate must be good for a while and belong to its key") func certificate() throws {
        let now = healthy.wallClockMs / 1_000
        func status(_ notBefore: Int64, _ notAfter: Int64, _ matches: Bool = true) throws -> Finding.Status? {
            try self.status("certificate", ["--tls-cert", "c", "--tls-key", "k"]) {
                $0.certificate = CertificateFacts(
                    notBefore: now + notBefore, notAfter: now + notAfter, matchesKey: matches)
            }
        }
        #expect(try status(-1, 90 * 86_400) == .ok && status(-1, 13 * 86_400) == .warn && status(-2, -1) == .fail)
        #expect(try status(60, 86_400) == .fail && status(-1, 90 * 86_400, false) == .fail)
        let missing = CertificateFacts(certificate: "/none", key: "/none")
        #expect(missing.fault == "/none cannot be read")
        #expect(try self.status("certificate") { $0.certificate = missing } == .fail)
        #expect(try findings("certificate").isEmpty)
        let open = try self.status("certificate", ["--http", "0.0.0.0:80", "--insecure-http"]) { _ in }
        #expect(open == .warn)
    }

    @Test("certificate files are read: their dates, and whether the key is theirs; config check refuses what is not")
    func certificateFiles() throws {
        let (own, other) = (try OwnCertificate(), try OwnCertificate())
        let facts = CertificateFacts(certificate: own.certificatePath, key: own.keyPath)
        #expect(facts.fault == nil && facts.matchesKey && facts.notAfter - facts.notBefore == 3_600)
        #expect(abs(facts.notBefore - WallClock.nowMs / 1_000) < 600)
        #expect(!CertificateFacts(certificate: own.certificatePath, key: other.keyPath).matchesKey)
        let noCertificate = CertificateFacts(certificate: own.keyPath, key: own.keyPath)
        #expect(noCertificate.fault?.contains("no PEM certificate") == true)
        #expect(CertificateFacts(certificate: own.certificatePath, key: "/none").fault == "/none cannot be read")
        func check(_ key: String) throws {
            _ = try ConfigCommand.check(try options(["--tls-cert", own.certificatePath, "--tls-key", key]), [:])
        }
        try check(own.keyPath)
        #expect(throws: ServeOptions.Refusal.self) { try check(other.keyPath) }
        #expect(throws: ServeOptions.Refusal.self) { try check(own.certificatePath) }
    }

    @Test("keys: a file is good, an argument is seen by all, and a file open to others is told") func keys() throws {
        #expect(try status("keys") == .ok)
        #expect(try status("keys", ["--key", "k2:0123456789abcdef0123456789abcdef"]) == .warn)
        #expect(try status("keys", ["--key", "k2:@/none"]) == .fail)
        #expect(
            try status("keys") { $0.keyFiles = [.init(path: "/k", isReadable: true, isOpenToOthers: true)] } == .warn)
        #expect(try status("webhooks", ["--webhook", "a=https://a.example"]) == .fail)
        let secret = "a=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
        let webhook = ["--webhook", "a=https://a.example", "--webhook-secret", secret]
        #expect(try status("webhooks", webhook) == .ok && status("keys", webhook) == .warn)
    }

    @Test("a probe of this host finds a taken port, proves the cipher, and leaves no port bound") func probe() throws {
        let folder = TemporaryFolder()
        let taken = try UDPSocket(binding: .init(ipv4: 0x7F00_0001, port: 0))
        let options = try options([
            "--media", "127.0.0.1:\(taken.address.port)", "--http", "127.0.0.1:0", "--admin", "off", "--data",
            folder.path + "/data", "--media-tcp", "off",
        ])
        for _ in 0..<2 {
            let facts = HostProbe.facts(for: options)
            #expect(facts.http["127.0.0.1:0"] == .free && facts.admin == nil)
            let range = try #require(facts.mediaUDP)
            #expect(range.count == 4 && range.free <= 3 && range.obstacle == .taken)
            #expect(facts.cipherFault == nil && facts.cipher != "none" && facts.runningProcess == nil)
            #expect(facts.data.fault == nil && !facts.data.exists && facts.data.freeByteCount > 0)
            #expect(facts.keyFiles.first?.isReadable == true && facts.descriptorLimit > 0)
        }
    }

    @Test("the command shows findings as text and as JSON, and fails with the configuration") func command() {
        var out = ""
        let code = DoctorCommand.run(["--workers", "0", "--json"], ["HOME": "/h"], Terminal()) { out += $0 }
        #expect(code == .failed && out.contains("\"check\":\"configuration\"") && out.contains("\"status\":\"fail\""))
        let findings = [Finding("http", .ok, "free"), Finding("clock", .warn, "late", advice: "wind it up")]
        #expect(
            DoctorCommand.text(of: findings, on: Terminal())
                == "ok    http   free\nwarn  clock  late\n             → wind it up\n\n1 ok, 1 to improve, 0 failed\n")
        #expect(DoctorCommand.json(of: findings).hasSuffix("],\"status\":\"warn\"}"))
    }
}
