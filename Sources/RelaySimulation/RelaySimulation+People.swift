import MediaRelay
import RTPCore
import RelayCore
import RelayTesting

// Calls that are made, and the clients in them.

extension RelaySimulation {
    func planCalls() {
        schedule(after: around(options.callInterval)) { [unowned self] in
            guard !isCalm else { return }
            makeCall()
            planCalls()
        }
    }

    private func makeCall() {
        tally.calls += 1
        guard let room = RoomID("call-\(tally.calls)") else { return }
        let call = SimulatedCall(self, number: tally.calls, room: room)
        calls.append(call)
        call.begin()
    }

    /// A client with an address of its own that sends nothing yet.
    func makeClient(hasVideo: Bool) -> ClientSeat {
        tally.clients += 1
        var options = SimulatedClient.Options()
        options.seed = random.next()
        let dialects: [ClientDialect] = [.chromium, .firefox, .libwebrtc, .aiortc]
        options.dialect = dialects[draw(dialects.count)]
        options.identity = identities.identity(of: options.dialect)
        options.hasVideo = hasVideo
        options.audioInterval = self.options.audioInterval
        options.videoInterval = self.options.audioInterval * 2
        options.videoPayloadByteCount = 300
        options.packetsPerKeyFrame = 2
        options.packetsPerFrame = 1
        options.reportInterval = self.options.reportInterval
        options.keepsPackets = false
        options.notesSenders = true
        return ClientSeat(SimulatedClient(options, address: freshAddress()))
    }

    private func freshAddress() -> PeerAddress {
        addressCount += 1
        return PeerAddress(ipv4: 0x0A01_0000 + addressCount, port: 5_000)
    }

    /// The client takes its answer and begins with its checks.
    func connect(_ seat: ClientSeat, answer: [UInt8]) {
        clients[seat.client.address] = seat
        do throws(SDPError) {
            try seat.client.accept(answer: answer, now: now)
        } catch {
            return fail("an answer that does not read: \(error)")
        }
        drain(seat)
    }

    func move(_ seat: ClientSeat) {
        seat.isDisturbed = true
        clients[seat.client.address] = nil
        seat.client.move(to: freshAddress(), now: now)
        clients[seat.client.address] = seat
        drain(seat)
    }

    /// The client is no more.
    func putAway(_ seat: ClientSeat) {
        seat.isDisturbed = true
        seat.client.vanish()
        clients[seat.client.address] = nil
        setLoss(nil, of: seat.client.address)
    }

    /// An event is on disk.
    func toldAsStored(_ event: JournalEvent) {
        tally.events += 1
        guard event.type == "room.closed", let room = event.room, let number = Int(room.dropFirst("call-".count)),
            calls.indices.contains(number - 1)
        else { return }
        let call = calls[number - 1]
        call.endedAt = now
        tell("call \(number): over, \(String(decoding: event.json.suffix(90), as: UTF8.self))")
        // Clients linger, so that it shows if anything still comes.
        schedule(after: milliseconds(4_000...6_000)) { [unowned self] in
            checkHearing(of: call)
            for party in call.parties {
                if let seat = party.seat { putAway(seat) }
                party.isGone = true
            }
            call.isOver = true
        }
    }

    // MARK: What is heard

    /// Pairs that have just heard each other.
    func talkingPairs() -> [Outage.Pair] {
        var pairs: [Outage.Pair] = []
        // What was decided and died with control has reached the workers.
        let torn = journalAudit.postedRooms
        for call in calls where !call.isOver && call.endedAt == nil && !torn.contains(call.room.text) {
            let seats = call.seats.filter { $0.client.isConnected }
            guard seats.count == 2, !seats.contains(where: \.isDisturbed), isHearing(seats[0], seats[1]),
                isHearing(seats[1], seats[0]),
                let worker = workers.values.first(where: { $0.address == seats[0].client.relayAddress })
            else { continue }
            pairs.append(Outage.Pair(first: seats[0], second: seats[1], worker: worker.processID))
        }
        return pairs
    }

    /// Within the time of eight packets.
    var patience: Interval { options.audioInterval * 8 + .milliseconds(200) }

    func isHearing(_ seat: ClientSeat, _ other: ClientSeat) -> Bool {
        let heard = seat.client.received.values.compactMap { $0.lastHeard[other.client.tag] }.max()
        return heard.map { now - $0 <= patience } ?? false
    }

    /// Nobody is heard but who is in the call and has asked to be, by nobody else, and not after the end.
    func checkHearing(of call: SimulatedCall) {
        let joining = Set(call.parties.filter(\.asksToJoin).flatMap { party in call.tags(of: party) })
        for party in call.parties {
            guard let seat = party.seat else { continue }
            for stream in seat.client.received.values {
                for (tag, time) in stream.lastHeard {
                    let own = call.tags(of: party)
                    if own.contains(tag) { fail("\(party.uid) hears itself in call \(call.number)") }
                    if !joining.contains(tag) { fail("somebody is heard in call \(call.number) who has not joined") }
                    if !party.asksToJoin { fail("\(party.uid) hears call \(call.number) and has not joined") }
                    // Orders may be late while control or a link is away.
                    if let end = call.endedAt, time > max(end, healthySince) + .seconds(2) {
                        fail("\(party.uid) hears call \(call.number) \((time - end).milliseconds) ms after its end")
                    }
                }
            }
        }
    }
}
