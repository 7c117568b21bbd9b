@_exported import RelaySigning
import RelayCore

extension TokenMint {
    /// A token of any payload: what tests and the verifier's vectors need.
    package static func token(_ payload: JSONValue, key: SigningKey) -> String? {
        token(payload: JSONText.of(payload), key: key)
    }

    package static func participant(
        uid: String, device: String, room: RoomID, expirySeconds: Int64, grants: Grants, key: SigningKey
    ) -> String? {
        let grants = TokenGrants(
            publishAudio: grants.publishAudio, publishVideo: grants.publishVideo, subscribe: grants.subscribe,
            end: grants.end, record: grants.record)
        return participant(
            uid: uid, device: device, room: room.text, expirySeconds: expirySeconds, grants: grants, key: key)
    }
}
