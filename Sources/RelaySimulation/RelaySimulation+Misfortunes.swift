import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

// What goes wrong: control and machine die at any step, workers die, links break, disks fail, networks part.

/// The next end of control that waits for its moment.
struct Misfortune {
    var isPower = false
    /// It is to be now.
    var isDue = false
    /// After the next decision whose commands have left, before it is stored.
    var waitsForCommands = false
    /// After the next transaction, before anybody is told.
    var waitsForStore = false
    var isPlanned = false
}

/// Who talked to each other when control went away.
struct Outage {
    struct Pair {
        var first: ClientSeat
        var second: ClientSeat
        var worker: Int32
    }
    var since: Instant
    var pairs: [Pair]
}

extension RelaySimulation {
    func planMisfortunes() {
        guard let interval = options.misfortuneInterval else { return }
        schedule(after: around(interval)) { [unowned self] in
            guard !isCalm else { return }
            strike()
            planMisfortunes()
        }
    }

    private func strike() {
        switch draw(16) {
        case 0..<7: planCrash()
        case 7..<9: killWorker()
        case 9..<11: cutLink()
        case 11..<14: breakDisk()
        default: partNetwork()
        }
    }

    // MARK: Control and the machine

    private func planCrash() {
        guard control != nil, !misfortune.isPlanned else { return }
        misfortune = Misfortune()
        misfortune.isPlanned = true
        misfortune.isPower = draw(3) == 0
        switch draw(4) {
        case 0:
            tell("\(misfortune.isPower ? "the power fails" : "control is killed")")
            misfortune.isDue = true
            carryOutCrash()
        case 1: misfortune.waitsForCommands = true
        case 2: misfortune.waitsForStore = true
        default: disk.operationsUntilCrash = 1 + draw(60)
        }
    }

    func carryOutCrash() {
        tell(
            (misfortune.isPower ? "POWER is lost" : "CONTROL dies")
                + (disk.isDead ? " in the midst of a write" : misfortune.waitsForCommands ? " with commands sent" : "")
                + (misfortune.waitsForStore ? " with a transaction stored and not told" : ""))
        let isPower = misfortune.isPower
        misfortune = Misfortune()
        outage = Outage(since: now, pairs: isPower ? [] : talkingPairs())
        if isPower { disk.losePower() } else { disk.killProcess() }
        control = nil
        healthySince = now
        breakOffRequests()
        consumers.controlDied()
        if isPower {
            tally.powerLosses += 1
            for worker in workers.values {
                worker.die()
                tally.handshakes += Int(worker.handshaker.counters.established)
            }
            workers = [:]
            bootedAt = now - .seconds(Int64(1 + draw(20)))
            bootCount += 1
        } else {
            tally.controlCrashes += 1
        }
        schedule(after: milliseconds(isPower ? 2_000...9_000 : draw(3) == 0 ? 1_500...6_000 : 30...900)) {
            [unowned self] in
            startControl()
        }
    }

    func startControl() {
        guard control == nil else { return }
        disk.restart()
        controlLives += 1
        do {
            control = try SimulatedControl(
                disk: disk, bootID: "boot\(bootCount)", seed: options.seed &* 1_000 &+ controlLives, now: nodeNow,
                log: log, configuration: configuration, hasWebhook: true, world: makeWorld())
        } catch {
            tell("control does not start: \(error)")
            if disk.isDead { return carryOutCrash() }
            schedule(after: milliseconds(300...1_200)) { [unowned self] in startControl() }
            return
        }
        tell("control starts from event \(control?.contents.lastSeq ?? 0)")
        checkRecovery()
        checkOutage()
        consumers.controlStarted()
    }

    private func makeWorld() -> SimulatedControl.World {
        let life = controlLives
        return SimulatedControl.World(
            wallClockMs: { [unowned self] in wallClockMs($0) }, answer: { [unowned self] in answered($0) },
            write: { [unowned self] in consumers.written($0, $1) }, close: { [unowned self] in consumers.closed($0) },
            page: { [unowned self] in consumers.answered($0, $1) },
            post: { [unowned self] in consumers.posted($0, life: life) },
            posted: { [unowned self] in journalAudit.post($0) },
            attempts: { [unowned self] in journalAudit.attempt(upTo: $0) },
            stored: { [unowned self] in stored(upTo: $0) },
            commanded: { [unowned self] in commanded() },
            isAlive: { [unowned self] in workers[$0] != nil }, startWorker: { [unowned self] in startWorker($0) },
            note: { [unowned self] in tell("  \($0)") })
    }

    private func commanded() {
        if misfortune.waitsForCommands { misfortune.isDue = true }
    }

    private func stored(upTo turn: UInt64) {
        for event in journalAudit.stored(upTo: turn) { toldAsStored(event) }
        if misfortune.waitsForStore { misfortune.isDue = true }
    }

    // MARK: Workers and links

    private func startWorker(_ index: Int) -> Int32 {
        nextProcessID += 1
        let processID = nextProcessID
        let epoch = random.next()
        do {
            workers[processID] = try SimulatedWorker(
                id: WorkerID(index: index, epoch: epoch), processID: processID, seed: random.next(), now: nodeNow,
                connect: { [unowned self] in connect() },
                send: { [unowned self] bytes, from, to in network.send(bytes, from: from, to: to, now: now) })
            if let address = workers[processID]?.address { workerAddresses.append(address) }
        } catch {
            fail("a worker does not start: \(error)")
        }
        tell("worker \(index) starts (pid \(processID))")
        return processID
    }

    private func connect() -> SimulatedLink? {
        guard let control else { return nil }
        let link = SimulatedLink(seed: random.next()) { [unowned self] in now }
        control.accept(link)
        return link
    }

    private func killWorker() {
        guard let processID = pick(workers.keys.sorted()), let worker = workers[processID] else { return }
        tell("WORKER \(worker.id.index) dies (pid \(processID))")
        tally.workerCrashes += 1
        worker.die()
        workerEnded(worker, cause: "killed by signal 9")
    }

    func workerEnded(_ worker: SimulatedWorker, cause: String) {
        workers[worker.processID] = nil
        healthySince = now
        tally.handshakes += Int(worker.handshaker.counters.established)
        control?.processEnded(worker.processID, cause: cause, now: nodeNow)
    }

    private func cutLink() {
        guard let processID = pick(workers.keys.sorted()), let control else { return }
        tell("the link of pid \(processID) breaks")
        tally.linkCuts += 1
        healthySince = now
        control.cutLink(of: processID, now: nodeNow)
    }

    // MARK: Disk and network

    private func breakDisk() {
        guard disk.faults == .none else { return }
        var faults = SimulatedDisk.Faults()
        switch draw(5) {
        case 0...1: faults.isFull = true
        case 2: faults.failsSyncs = true
        case 3: faults.failsWrites = true
        default: faults.failsReads = true
        }
        tell("the disk fails: \(faults)")
        tally.diskFaults += 1
        disk.faults = faults
        schedule(after: milliseconds(50...3_500)) { [unowned self] in
            disk.faults = .none
            tell("the disk is well again")
        }
    }

    private func partNetwork() {
        guard let seat = pick(calls.flatMap(\.seats)) else { return }
        let address = seat.client.address
        tell("\(address.addressText) is cut off")
        seat.isDisturbed = true
        setLoss(1, of: address)
        schedule(after: milliseconds(200...9_000)) { [unowned self] in setLoss(nil, of: address) }
    }

    func setLoss(_ loss: Double?, of address: PeerAddress) {
        for relay in workerAddresses {
            let quality = loss.map { VirtualNetwork.Quality(loss: $0) }
            network.setQuality(quality, from: address, to: relay)
            network.setQuality(quality, from: relay, to: address)
        }
    }
}
