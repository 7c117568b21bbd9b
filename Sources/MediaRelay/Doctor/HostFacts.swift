/// What the host is like for a node with given options: what `HostProbe` found, for `Doctor` to judge. Plain data.
package struct HostFacts: Sendable {
    /// What came of binding an address for a moment.
    package enum Binding: Hashable, Sendable {
        case free, taken, forbidden, noSuchAddress
        case failed(String)
    }
    /// Ports that workers choose from.
    package struct Range: Hashable, Sendable {
        package var first: UInt16
        package var count: Int
        package var free: Int
        /// What spoke against the others.
        package var obstacle: Binding?
    }
    package struct Folder: Hashable, Sendable {
        package var path = ""
        package var exists = false
        /// Why it cannot be used; nil: it can.
        package var fault: String?
        package var freeByteCount: Int64 = 0
        package var filesystem = Filesystem.local
    }
    package enum Filesystem: Hashable, Sendable { case local, memory, network }
    package struct File: Hashable, Sendable {
        package var path: String
        package var isReadable: Bool
        package var isOpenToOthers: Bool
    }

    /// From where a STUN server saw us.
    package enum OutsideView: Hashable, Sendable {
        /// Addresses, one of each family that reached it.
        case seen([String])
        case failed(String)
    }

    /// Nil: nobody was asked.
    package var outside: OutsideView?
    /// The folder of recordings; nil: there is none.
    package var recordings: Folder?
    /// By the endpoint's text.
    package var http: [String: Binding] = [:]
    package var admin: Binding?
    package var mediaUDP: Range?
    package var mediaTCP: Range?
    /// The control process that runs on the data folder.
    package var runningProcess: Int32?
    package var localAddresses: [String] = []
    package var receiveBufferByteCount = 0
    package var sendBufferByteCount = 0
    package var descriptorLimit: Int64 = 0
    package var wallClockMs: Int64 = 0
    /// Nil: the kernel does not say.
    package var isClockSynchronised: Bool?
    package var clockSource = ""
    package var cipher = ""
    /// Why the self-test failed.
    package var cipherFault: String?
    package var isX86 = false
    package var hasAES = true
    package var kernel = ""
    package var canSegment = false
    package var data = Folder()
    package var certificate: CertificateFacts?
    package var keyFiles: [File] = []
    package init() {}
}
