import RTPCore

/// Which m-lines of an offer share the one transport (RFC 9143), checked. A relay with one UDP port a worker
/// has no second transport to give: every audio and video m-line is bundled, or it is the only one.
struct OfferBundle {
    /// Indices of the BUNDLE group's m-lines in the group's order; nil for an offer without a group.
    let indices: [Int]?

    init(of offer: SessionDescription) throws(Problem) {
        let active = offer.media.indices.filter { offer.media[$0].isActiveRTP }
        guard let group = offer.bundle else {
            guard active.count <= 1 else {
                throw Problem(
                    status: 406, code: "sdp-no-bundle", section: offer.media[active[1]], index: active[1],
                    detail: "needs a transport of its own: a=group:BUNDLE is missing")
            }
            indices = nil
            return
        }
        var found: [Int] = []
        for mid in group.mids {
            guard let index = offer.media.firstIndex(where: { $0.mid == mid }), !found.contains(index) else {
                throw Problem(
                    status: 400, code: "sdp-bad-bundle",
                    detail: "a=group:BUNDLE names a mid twice or one that no m-line has")
            }
            found.append(index)
        }
        if let outside = active.first(where: { !found.contains($0) }) {
            throw Problem(
                status: 406, code: "sdp-no-bundle", section: offer.media[outside], index: outside,
                detail: "needs a transport of its own: it is not in a=group:BUNDLE")
        }
        indices = found
    }

    /// The accepted m-line whose transport attributes count: the first in the group's order (RFC 9143
    /// §7.3.1); a tag that is refused passes the role on.
    func tag(accepted: [Int]) -> Int? {
        guard let indices else { return accepted.first }
        return indices.first { accepted.contains($0) }
    }
}
