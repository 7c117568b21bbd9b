/// The sockets that a server leaves to its successor, in another process or another program of this one: listening ones, in whose
/// queues clients wait meanwhile, and connections on which no request is under way. Whoever holds it owns the descriptors, which are
/// close-on-exec. Of TLS connections there are none: their state is OpenSSL's and stays behind.
public struct HTTPHandover: Hashable, Sendable {
    public struct Listener: Hashable, Sendable {
        /// As configured: port 0 stays 0.
        public var address: String
        public var port: UInt16
        public var descriptor: Int32

        public init(address: String, port: UInt16, descriptor: Int32) {
            self.address = address
            self.port = port
            self.descriptor = descriptor
        }
    }

    public struct Connection: Hashable, Sendable {
        public var descriptor: Int32
        /// Index of the listener that it came to.
        public var listener: Int

        public init(descriptor: Int32, listener: Int) {
            self.descriptor = descriptor
            self.listener = listener
        }
    }

    public var listeners: [Listener]
    public var connections: [Connection]

    public init(listeners: [Listener] = [], connections: [Connection] = []) {
        self.listeners = listeners
        self.connections = connections
    }

    public var descriptors: [Int32] { listeners.map(\.descriptor) + connections.map(\.descriptor) }
}
