import RTPCore

// Which of the addresses that passed a check media is sent to: the one that the client nominates, once it is validated; and
// where that falls silent, the one that the client is heard from instead.

extension MediaEngine {
    /// The path of an address that has just passed a check: known, or new with the oldest unvalidated one making room.
    func learn(_ peer: PeerAddress, local: UInt8, for index: Int32, now: Instant) -> Int32 {
        let transport = transports + Int(index)
        if let flow = flows.find(peer) {
            if flow.transport == index {
                pathAt(index, flow.path).pointee.local = local
                return flow.path
            }
            // The address changed hands: an authenticated check for another session wins (T39).
            abandon(flow.path, of: flow.transport)
        }
        var chosen = Int32(transport.pointee.pathCount)
        if Int(chosen) < Limits.pathsPerTransport {
            transport.pointee.pathCount += 1
        } else {
            chosen = -1
            for candidate in 0..<Int32(Limits.pathsPerTransport)
            where candidate != Int32(transport.pointee.selectedPath) {
                guard chosen >= 0 else {
                    chosen = candidate
                    continue
                }
                let a = pathAt(index, candidate).pointee
                let b = pathAt(index, chosen).pointee
                if (a.isValidated ? 1 : 0, a.lastReceived) < (b.isValidated ? 1 : 0, b.lastReceived) {
                    chosen = candidate
                }
            }
            flows.remove(pathAt(index, chosen).pointee.address, ownedBy: index)
        }
        var fresh = Path()
        fresh.address = peer
        fresh.local = local
        fresh.lastReceived = now
        // Who has a TCP connection is where it says.
        fresh.isValidated = peer.isStream
        pathAt(index, chosen).pointee = fresh
        flows.set(peer, transport: index, path: chosen)
        return chosen
    }

    /// A path whose address now belongs to another transport, or whose connection is gone, can not be sent to any more.
    func abandon(_ pathIndex: Int32, of index: Int32) {
        flows.remove(pathAt(index, pathIndex).pointee.address, ownedBy: index)
        pathAt(index, pathIndex).pointee = Path()
        let transport = transports + Int(index)
        guard Int32(transport.pointee.selectedPath) == pathIndex else { return }
        // It stays without a path until the client's next check; liveness runs on.
        transport.pointee.peer = .none
    }

    /// What an authenticated check over a path means for the choice of path.
    func follow(_ index: Int32, path pathIndex: Int32, isNominated: Bool, now: Instant) {
        let transport = transports + Int(index)
        let path = pathAt(index, pathIndex)
        if isNominated { path.pointee.isNominated = true }
        if !transport.pointee.hasPeer {
            // Media is not aimed at an address that somebody may have forged: then our check's answer comes first.
            if path.pointee.isValidated || !transport.pointee.flags.contains(.hasKeys) {
                select(pathIndex, of: index, now: now)
            }
        } else if path.pointee.isValidated, path.pointee.isNominated {
            move(index, to: pathIndex, now: now)
        }
        if !path.pointee.isValidated, !path.pointee.isCheckPending { sendCheck(index, pathIndex, now: now) }
        reschedule(index, now: now)
    }

    func select(_ pathIndex: Int32, of index: Int32, now: Instant) {
        let transport = transports + Int(index)
        let path = pathAt(index, pathIndex)
        transport.pointee.selectedPath = Int8(pathIndex)
        transport.pointee.peer = path.pointee.address
        transport.pointee.local = path.pointee.local
    }

    /// Media moves to a validated, nominated path, at most once a second (T18).
    func move(_ index: Int32, to pathIndex: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard Int32(transport.pointee.selectedPath) != pathIndex,
            now - transport.pointee.lastPathSwitch >= Limits.pathSwitchInterval
        else { return }
        transport.pointee.lastPathSwitch = now
        let left = pathAt(index, Int32(transport.pointee.selectedPath))
        left.pointee.isNominated = false
        let isDead = now - left.pointee.lastReceived >= Limits.deadPath
        select(pathIndex, of: index, now: now)
        if transport.pointee.flags.contains(.hasKeys) {
            if isDead { askForPictures(of: index, now: now) }
            transport.pointee.statistics.pathChanges &+= 1
            news.append(.pathChanged(transport.pointee.handle, at: now))
        }
    }

    /// What was sent to a receiver that could not be reached is gone, and too much of it to repeat: its pictures begin anew.
    func askForPictures(of receiver: Int32, now: Instant) {
        forEachSlot(of: receiver) { slot in
            let subscription = subscriptions[slot]
            guard subscription.pointee.kind == .video, subscription.pointee.flow == .passing else { return }
            askForKeyFrame(subscription.pointee.layer, now: now)
        }
    }

    /// Leaves a selected path on which nothing comes any more for a validated one on which the client is heard. A NAT that
    /// gives it another port changes its address without its knowing: its checks go on, but some clients (aiortc,
    /// libdatachannel) nominate a pair once and never again.
    func leaveSilentPath(_ index: Int32, now: Instant) {
        let transport = transports + Int(index)
        guard transport.pointee.hasPeer else { return }
        let silence =
            transport.pointee.flags.contains(.joined) ? Limits.pathSilenceJoined : Limits.pathSilencePrepared
        let selected = pathAt(index, Int32(transport.pointee.selectedPath))
        guard now - selected.pointee.lastReceived >= silence else { return }
        var best: Int32 = -1
        var heard = now - silence
        for pathIndex in 0..<Int32(transport.pointee.pathCount) {
            let path = pathAt(index, pathIndex)
            guard path.pointee.isValidated, path.pointee.address != .none, path.pointee.lastReceived > heard else {
                continue
            }
            best = pathIndex
            heard = path.pointee.lastReceived
        }
        if best >= 0 { move(index, to: best, now: now) }
    }
}
