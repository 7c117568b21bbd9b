import RTPCore

// What the sockets ask of an IP address beside its text (RTPCore has that).

extension PeerAddress {
    /// `0.0.0.0` or `::`: every local address of the family.
    package var isWildcard: Bool { isIPv4 ? ipv4 == 0 : high == 0 && low == 0 }
    /// fe80::/10, meaningful only together with an interface.
    package var isLinkLocal: Bool { high >> 54 == 0x3FA }
}
