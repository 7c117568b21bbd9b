import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

// What must hold at a recovery, at quiet points, and when everything is over.

extension RelaySimulation {
    /// A new control process has read the journal.
    func checkRecovery() {
        guard let control else { return }
        if let wrong = journalAudit.recovered(control.contents, log: log) { return fail(wrong) }
        let newest = control.contents.lastSeq
        checkEvents(after: newest > 200 ? newest - 200 : 0)
        guard !disk.faults.failsReads else { return }
        for (room, outcome) in journalAudit.told.outcomes {
            guard let id = RoomID(room), control.ended.outcome(of: id) == outcome else {
                return fail("the journal does not know that \(room) ended as \(outcome)")
            }
        }
        for progress in control.contents.webhooks where progress.cursor > newest {
            fail("the webhook's cursor is \(progress.cursor), the newest event \(newest)")
        }
    }

    private func checkEvents(after seq: UInt64) {
        guard let control else { return }
        var cursor = seq
        do {
            while true {
                let events = try control.journal.events(after: cursor, room: nil, limit: 500)
                for event in events {
                    let index = Int(event.seq) - 1
                    guard event.seq == cursor + 1, journalAudit.told.events.indices.contains(index),
                        journalAudit.told.events[index] == event
                    else { return fail("event \(event.seq) in the journal is not what was told, or behind a gap") }
                    cursor = event.seq
                }
                if events.isEmpty { break }
            }
        } catch {
            // A disk that does not let itself be read says nothing about what is on it.
            return tell("events can not be compared: \(error)")
        }
        if cursor != journalAudit.newest {
            fail("the journal ends with event \(cursor), told was \(journalAudit.newest)")
        }
    }

    /// Control is back: whoever talked when it went talked on.
    func checkOutage() {
        guard let outage else { return }
        self.outage = nil
        guard now - outage.since > patience + .milliseconds(300) else { return }
        for pair in outage.pairs where !pair.first.isDisturbed && !pair.second.isDisturbed {
            guard workers[pair.worker] != nil else { continue }
            tally.mediaChecks += 1
            if !isHearing(pair.first, pair.second) || !isHearing(pair.second, pair.first) {
                fail("a call fell silent while control was away for \((now - outage.since).milliseconds) ms")
            }
        }
    }

    func watchQuietPoints() {
        schedule(after: .milliseconds(250)) { [unowned self] in
            checkQuietPoint()
            watchQuietPoints()
        }
    }

    private var isHealthy: Bool {
        guard let control else { return false }
        return control.connectedWorkers.count == SimulatedControl.workerCount
            && workers.values.allSatisfy { !$0.link.isAlone }
    }

    private func checkQuietPoint() {
        checkBounds()
        guard isHealthy, let control else {
            healthySince = now
            return
        }
        guard control.decisions.isQuiet, control.supervisorEvents.isEmpty,
            workers.values.allSatisfy({ $0.connected?.isIdle ?? false })
        else { return }
        let conductor = control.decisions.conductor
        if let broken = conductor.checkInvariants().first { fail(broken) }
        for worker in workers.values.sorted(by: { $0.processID < $1.processID }) {
            let expected = conductor.expectedTransports(on: worker.id)
            let held = Set(worker.engine.snapshot().map(\.participant))
            if held != expected {
                fail("worker \(worker.id.index) holds \(held.count) transports and should hold \(expected.count)")
            }
        }
        for call in calls where !call.isOver { checkHearing(of: call) }
    }

    /// Nothing grows that a peer could make grow.
    private func checkBounds() {
        if requests.count > 20_000 { fail("\(requests.count) requests wait") }
        for worker in workers.values where worker.link.keptNewsCount > LinkClient.keptNewsLimit {
            fail("a worker keeps \(worker.link.keptNewsCount) news")
        }
        // A write-ahead log that nobody moves back would grow for ever.
        if disk.byteCount > 64 << 20 { fail("the journal's files have \(disk.byteCount) bytes") }
    }

    // MARK: The end

    /// Nothing bad happens any more, everything ends, and nothing may be left.
    func finish() {
        isCalm = true
        disk.faults = .none
        disk.operationsUntilCrash = nil
        misfortune = Misfortune()
        network.quality = .perfect
        tell("calm")
        run(until: now + .seconds(12))
        guard violations.isEmpty else { return }
        for call in calls { ask(Self.server, .deleteRoom(call.room, reason: nil), isKeyed: false) }
        run(until: now + .seconds(8))
        guard violations.isEmpty else { return }
        checkHearingOfAll()
        for seat in clients.values { putAway(seat) }
        // Failed deliveries wait their time, and the longest ring.
        for _ in 0..<40 where violations.isEmpty && !hasToldEverything { run(until: now + .seconds(10)) }
        guard violations.isEmpty else { return }
        checkEnd()
        guard violations.isEmpty else { return }
        // And once more from the disk as it is.
        misfortune.isPower = draw(2) == 0
        carryOutCrash()
        run(until: now + .seconds(12))
        if control == nil { fail("control does not come back") }
    }

    private func checkHearingOfAll() { for call in calls where !call.isOver { checkHearing(of: call) } }

    private var hasToldEverything: Bool {
        let newest = journalAudit.newest
        return consumers.streamCursor == newest && consumers.pageCursor == newest && consumers.deliveredUpTo == newest
            && control?.decisions.isQuiet ?? false
    }

    private func checkEnd() {
        let newest = journalAudit.newest
        if !hasToldEverything {
            fail(
                "of \(newest) events the stream has told \(consumers.streamCursor), pages \(consumers.pageCursor), the "
                    + "webhook \(consumers.deliveredUpTo)")
        }
        guard let control else { return fail("control does not come back") }
        let counts = control.decisions.conductor.counts
        if counts.initiatedRooms + counts.ongoingRooms + counts.connecting + counts.prepared + counts.joined > 0 {
            fail("left behind: \(counts)")
        }
        for worker in workers.values {
            if worker.engine.transportCount > 0 {
                fail("a worker still has \(worker.engine.transportCount) transports")
            }
            if worker.handshaker.count > 0 { fail("a handshaker still has \(worker.handshaker.count) associations") }
            tally.handshakes += Int(worker.handshaker.counters.established)
        }
        checkEvents(after: 0)
        eventAudit.finish(newest: newest)
        for what in eventAudit.failures { fail(what) }
        for (room, outcome) in journalAudit.told.outcomes {
            if let said = eventAudit.outcome(of: room), said != outcome.rawValue {
                fail("\(room) was told as \(said) and is stored as \(outcome)")
            }
            if eventAudit.outcome(of: room) != nil, !journalAudit.told.calls.contains(room) {
                fail("\(room) has no call record")
            }
        }
    }
}
