/// What an `HTTPServer` listens on and how far it goes. Defaults are those of the control API.
public struct HTTPConfiguration: Sendable {
    /// One address to listen on.
    public struct Listener: Hashable, Sendable {
        /// Numeric: `127.0.0.1`, `::1`, `0.0.0.0`, `::` (IPv6 only).
        public var address: String
        /// 0 takes any free port; `HTTPServer.start()` tells which.
        public var port: UInt16
        /// Whether it speaks TLS; then `tls` must be set.
        public var isSecure: Bool

        public init(address: String, port: UInt16, isSecure: Bool = false) {
            self.address = address
            self.port = port
            self.isSecure = isSecure
        }
    }

    /// Files of the server's identity, PEM. Read at `start()` and at each `reloadTLS()`.
    public struct TLSFiles: Hashable, Sendable {
        /// The certificate, followed by its chain.
        public var certificatePath: String
        public var privateKeyPath: String

        public init(certificatePath: String, privateKeyPath: String) {
            self.certificatePath = certificatePath
            self.privateKeyPath = privateKeyPath
        }
    }

    /// What the server holds at most. Each bound is what a peer could otherwise grow.
    public struct Limits: Sendable {
        /// Requests whose head is whole and whose answer is not given; more get 503 with Retry-After.
        /// Requests of clients that left count until they are answered: their work still goes on.
        public var requestCount = 1024
        /// Event streams, counted apart from everything else; more get 503.
        public var eventStreamCount = 20_000
        /// Connections that are not event streams; more get 503 and are closed.
        public var connectionCount = 4096
        /// What an event stream that does not read may hold, bytes; more closes the stream.
        public var streamQueueByteCount = 64 * 1024
        /// Largest answer, bytes of body; larger is the application's fault and becomes 500.
        public var responseByteCount = 1 << 20
        /// Answers of all connections that wait for slow readers, bytes; while more wait, requests get 503.
        public var pendingOutputByteCount = 64 << 20
        /// Stream bytes handed over by other threads and not yet taken; more closes all event streams.
        public var mailboxByteCount = 64 << 20
        /// What one read of a connection takes at most, bytes: its share of a turn.
        public var readByteCount = 16 * 1024
        /// Kernel send buffer of a connection (SO_SNDBUF), bytes: without it the kernel hides 4 MB per slow
        /// reader.
        public var sendBufferByteCount = 64 * 1024

        public init() {}
    }

    /// How long the server waits, in milliseconds.
    public struct Deadlines: Sendable {
        /// From the connection, or from the first byte of a later request, to the last byte of its head. TLS
        /// included.
        public var headMs = 5_000
        /// From the last byte of the head to the last byte of the body.
        public var bodyMs = 10_000
        /// Between an answer and the first byte of the next request.
        public var idleMs = 30_000
        /// For a reader to take something of what waits for it.
        public var writeStallMs = 10_000
        /// For the client to close after the server's last byte.
        public var lingerMs = 2_000
        /// For running requests after `stop(graceful: true)`.
        public var stopMs = 5_000
        /// How long no connection is accepted when the process has no descriptor left.
        public var acceptPauseMs = 100

        public init() {}
    }

    public var listeners: [Listener]
    public var tls: TLSFiles?
    /// What a predecessor left: its listening sockets are used where they are configured still, and nothing is served before
    /// `HTTPServer.resume()`.
    public var inherited: HTTPHandover?
    public var parser = RequestParser.Limits()
    public var limits = Limits()
    public var deadlines = Deadlines()

    public init(listeners: [Listener], tls: TLSFiles? = nil) {
        self.listeners = listeners
        self.tls = tls
    }
}

/// What the server did so far and holds now.
public struct HTTPCounters: Hashable, Sendable {
    /// Connections accepted.
    public var connections: UInt64 = 0
    /// Connections refused because there were too many, or no descriptor.
    public var refusedConnections: UInt64 = 0
    /// Requests handed to the sink.
    public var requests: UInt64 = 0
    /// Requests the server refused by itself for their form or size (4xx, 5xx of the parser).
    public var refusedRequests: UInt64 = 0
    /// Requests refused with 503.
    public var overloads: UInt64 = 0
    /// Connections ended because a deadline passed.
    public var timeouts: UInt64 = 0
    /// Event streams closed because their queue was full.
    public var streamOverflows: UInt64 = 0
    /// TLS handshakes that failed.
    public var tlsFailures: UInt64 = 0
    /// Answers the server replaced by 500: too large, or a field that would split the answer.
    public var faultyResponses: UInt64 = 0
    /// Answers and writes to requests and streams that were gone.
    public var skipped: UInt64 = 0
    /// Connections open now, streams included.
    public var openConnections = 0
    /// Event streams open now.
    public var openStreams = 0
    /// Requests waiting for an answer now, those of departed clients included.
    public var requestsInFlight = 0
    /// Bytes that wait for slow readers now.
    public var pendingOutputByteCount = 0

    public init() {}
}

/// Why a server does not start or does not take a certificate.
public enum HTTPServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The address is not numeric.
    case address(String)
    /// A system call failed.
    case system(call: String, address: String, errno: Int32)
    /// A secure listener without `tls`.
    case missingCertificate
    /// OpenSSL refuses the certificate or key file.
    case certificate(String)

    public var description: String {
        switch self {
        case .address(let text): "\(text) is not a numeric IPv4 or IPv6 address"
        case .system(let call, let address, let number): "\(call) for \(address) failed with errno \(number)"
        case .missingCertificate: "a secure listener needs a certificate and a key file"
        case .certificate(let text): text
        }
    }
}
