import CLinuxIO
import COpenSSL
import Glibc

/// A client that sends bytes as they are, over loopback, with or without TLS. Blocking; gives up after 10 s.
final class RawClient {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    struct Response: Equatable {
        var status: Int
        var headers: [(name: String, value: String)]
        var body: [UInt8]

        static func == (left: Response, right: Response) -> Bool {
            left.status == right.status && left.body == right.body
        }

        func header(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name.lowercased() }?.value
        }

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    let descriptor: Int32
    /// Kept alive as long as the client.
    var server: TestServer?
    private var ssl: OpaquePointer?
    private var buffer: [UInt8] = []
    /// Whether the server has closed its side in good order (end of stream, not a reset).
    private(set) var sawEnd = false
    private var isClosed = false

    init(port: UInt16, address: String = "127.0.0.1", receiveBufferByteCount: Int32? = nil) throws {
        let isV6 = address.contains(":")
        descriptor = socket(isV6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(description: "socket: \(errno)") }
        var timeout = timeval(tv_sec: 10, tv_usec: 0)
        let timeByteCount = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, timeByteCount)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, timeByteCount)
        if var count = receiveBufferByteCount { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &count, 4) }
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
        let result: Int32
        if isV6 {
            var target = sockaddr_in6()
            target.sin6_family = sa_family_t(AF_INET6)
            target.sin6_port = port.bigEndian
            inet_pton(AF_INET6, address, &target.sin6_addr)
            result = withUnsafePointer(to: &target) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, 28) }
            }
        } else {
            var target = sockaddr_in()
            target.sin_family = sa_family_t(AF_INET)
            target.sin_port = port.bigEndian
            inet_pton(AF_INET, address, &target.sin_addr)
            result = withUnsafePointer(to: &target) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, 16) }
            }
        }
        guard result == 0 else {
            let number = errno
            Glibc.close(descriptor)
            isClosed = true
            throw Failure(description: "connect: \(number)")
        }
    }

    deinit { close() }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        if let ssl { SSL_free(ssl) }
        ssl = nil
        Glibc.close(descriptor)
    }

    /// Closes by a reset, as a crashed client's kernel does.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Speaks TLS from now on.
    func startTLS(_ context: OpaquePointer, protocols: [UInt8]? = nil) throws {
        ERR_clear_error()
        guard let ssl = SSL_new(context) else { throw Failure(description: "no SSL") }
        self.ssl = ssl
        if let protocols { SSL_set_alpn_protos(ssl, protocols, UInt32(protocols.count)) }
        SSL_set_fd(ssl, descriptor)
        guard SSL_connect(ssl) == 1 else { throw Failure(description: "handshake failed") }
    }

    /// What ALPN agreed on.
    var selectedProtocol: String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        if let ssl { SSL_get0_alpn_selected(ssl, &name, &count) }
        return name.map { String(decoding: UnsafeBufferPointer(start: $0, count: Int(count)), as: UTF8.self) }
            ?? ""
    }

    var tlsVersion: String { ssl.flatMap(SSL_get_version).map { String(cString: $0) } ?? "" }

    /// The common name of the server's certificate.
    var certificateName: String {
        guard let ssl, let certificate = SSL_get1_peer_certificate(ssl) else { return "" }
        defer { X509_free(certificate) }
        var text = [CChar](repeating: 0, count: 128)
        let name = X509_get_subject_name(certificate)
        let count = X509_NAME_get_text_by_NID(name, NID_commonName, &text, 128)
        return String(decoding: text.prefix(max(0, Int(count))).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// Sends all bytes, or as many as the server takes before it closes.
    func send(_ bytes: [UInt8]) {
        // OpenSSL writes without MSG_NOSIGNAL. Only this thread's signal: the server has to mind its own.
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        if ssl != nil { pthread_sigmask(SIG_BLOCK, &pipe, nil) }
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { pointer -> Int in
                let rest = UnsafeRawBufferPointer(rebasing: pointer[offset...])
                if let ssl { return Int(SSL_write(ssl, rest.baseAddress, Int32(rest.count))) }
                return Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            offset += count
        }
    }

    /// The TLS record that carries a text, not sent.
    func record(of text: String) -> [UInt8] {
        guard let ssl, let memory = BIO_new(BIO_s_mem()), let socket = BIO_new_socket(descriptor, BIO_NOCLOSE)
        else { return [] }
        BIO_up_ref(memory)
        SSL_set0_wbio(ssl, memory)
        SSL_write(ssl, Array(text.utf8), Int32(text.utf8.count))
        var record = [UInt8](repeating: 0, count: text.utf8.count + 1024)
        let count = BIO_read(memory, &record, Int32(record.count))
        SSL_set0_wbio(ssl, socket)
        BIO_free(memory)
        return Array(record.prefix(Int(max(0, count))))
    }

    /// Sends bytes beside TLS.
    func sendRaw(_ bytes: ArraySlice<UInt8>) {
        _ = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }

    /// Reads once. False at the end, at a reset, and after 10 s of silence.
    @discardableResult
    func fill() -> Bool {
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        let count = piece.withUnsafeMutableBytes { pointer -> Int in
            if let ssl { return Int(SSL_read(ssl, pointer.baseAddress, Int32(pointer.count))) }
            return recv(descriptor, pointer.baseAddress, pointer.count, 0)
        }
        if count == 0 { sawEnd = true }
        guard count > 0 else { return false }
        buffer.append(contentsOf: piece[..<count])
        return true
    }

    /// All bytes until the server closes.
    func readToEnd() -> [UInt8] {
        while fill() {}
        defer { buffer = [] }
        return buffer
    }

    /// Exactly so many bytes.
    func read(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            guard fill() else { throw Failure(description: "closed after \(buffer.count) of \(count) bytes") }
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    /// Bytes up to and with a mark.
    func read(through mark: String) throws -> [UInt8] {
        let mark = Array(mark.utf8)
        var searched = 0
        while true {
            if buffer.count >= mark.count {
                for start in searched...(buffer.count - mark.count)
                where buffer[start..<(start + mark.count)].elementsEqual(mark) {
                    return try read(start + mark.count)
                }
                searched = buffer.count - mark.count + 1
            }
            guard fill() else {
                throw Failure(description: "closed behind \(String(decoding: buffer, as: UTF8.self))")
            }
        }
    }

    /// Reads the head of an answer.
    func readHead() throws -> Response {
        let text = String(decoding: try read(through: "\r\n\r\n"), as: UTF8.self)
        var lines = text.split(separator: "\r\n", omittingEmptySubsequences: true).map(String.init)
        let statusLine = lines.removeFirst().split(separator: " ")
        guard statusLine.count >= 2, statusLine[0] == "HTTP/1.1", let status = Int(statusLine[1]) else {
            throw Failure(description: "no status line: \(text)")
        }
        let headers = lines.map { line -> (name: String, value: String) in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(parts[0]), parts.count < 2 ? "" : String(parts[1].drop { $0 == " " }))
        }
        return Response(status: status, headers: headers, body: [])
    }

    /// Reads a whole answer with Content-Length, or without a body.
    func readResponse(toHead: Bool = false) throws -> Response {
        var response = try readHead()
        if !toHead, let count = response.header("Content-Length").flatMap(Int.init) {
            response.body = try read(count)
        }
        return response
    }

    /// Reads the data of one chunk; empty for the last one.
    func readChunk() throws -> [UInt8] {
        let line = String(decoding: try read(through: "\r\n").dropLast(2), as: UTF8.self)
        guard let count = Int(line, radix: 16) else { throw Failure(description: "no chunk size: \(line)") }
        return Array(try read(count + 2).dropLast(2))
    }

    /// Sends a request and reads its answer.
    func request(_ text: String) throws -> Response {
        send(text)
        return try readResponse(toHead: text.hasPrefix("HEAD"))
    }

    /// A GET with the Host it needs.
    func get(_ path: String) throws -> Response {
        try request("GET \(path) HTTP/1.1\r\nHost: relay.test\r\n\r\n")
    }
}
