import Foundation
@testable import RelayClient
import RelayCore
import RelayHTTP
import Testing

@testable import MediaRelay

@Suite("Client library against a real relay") struct RelayClientTests {
    private func call(_ id: String, _ media: RelayClient.Media = .video) -> RelayClient.RoomRequest {
        var ring = RelayClient.RingRequest(caller: "alice", callees: ["bob"])
        ring.callerName = "Alice"
        // A busy machine may let minutes pass between two awaits: no timer of the call takes part.
        ring.windowMs = 3_600_000
        var room = RelayClient.RoomRequest(id: id, media: media, ring: ring)
        var timeouts = RelayClient.Timeouts()
        timeouts.joinAfterClaimMs = 3_600_000
        room.timeouts = timeouts
        return room
    }

    /// A request of a participant, by its token.
    private func ask(_ client: RelayClient, _ path: String, token: String) async throws -> Int {
        let request = HTTPLoop.Request(
            method: "POST", url: client.url + path, headers: ["Authorization: Bearer \(token)"], body: [],
            timeoutMs: 5_000)
        return try await client.loop.send(request).status
    }

    @Test("a call is created, rung, answered and ended, and followed gaplessly") func wholeCall() async throws {
        let relay = try RelayProcess()
        let client = try relay.client()
        let room = try await client.createRoom(call("c1"), idempotencyKey: "k")
        #expect(room.id == "c1" && room.status == "initiated")
        #expect(try await client.createRoom(call("c1"), idempotencyKey: "k").id == "c1")
        try await client.notePush("c1", uid: "bob", device: "phone")
        let token = try client.token(uid: "bob", device: "phone", room: "c1")
        #expect(try await ask(client, "/v1/rooms/c1/ringing", token: token) == 200)
        #expect(try await ask(client, "/v1/rooms/c1/answer", token: token) == 200)
        #expect(try await client.room("c1").status == "ongoing")
        #expect(try await client.endCall("c1", as: .ended, uid: "alice").outcome == "ended")
        var types: [String] = []
        var last: RelayClient.Event?
        for try await event in client.events(after: 0, room: "c1") {
            types.append(event.type)
            last = event
            if event.type == "room.closed" { break }
        }
        #expect(
            types == [
                "room.created", "call.initiated", "call.ringing", "call.answered", "call.ended", "room.closed",
            ])
        #expect(last?.roomId == "c1" && last?.roomSeq == 6)
        let view = try await client.room("c1")
        #expect(view.outcome == "ended" && view.seq == last?.seq)
    }

    @Test("problems come as values that name their code, outcome and room") func problems() async throws {
        let relay = try RelayProcess()
        let client = try relay.client()
        func problem(_ body: () async throws(RelayClient.Failure) -> Void) async -> RelayClient.Problem? {
            do throws(RelayClient.Failure) {
                try await body()
            } catch .problem(let problem) {
                return problem
            } catch {}
            return nil
        }
        let missing = await problem { () async throws(RelayClient.Failure) in _ = try await client.room("none") }
        #expect(missing?.status == 404 && missing?.code == "call-not-found")
        _ = try await client.createRoom(call("c1"))
        let second = await problem { () async throws(RelayClient.Failure) in _ = try await client.createRoom(call("c2"))
        }
        #expect(second?.code == "session-already-active" && second?.roomId == "c1")
        try await client.endRoom("c1")
        let gone = await problem { () async throws(RelayClient.Failure) in _ = try await client.createRoom(call("c1")) }
        #expect(gone?.status == 410 && gone?.outcome == "ended")
        let other = RelayClient(
            url: relay.url, key: try SigningKey(id: "k1", secret: Array(RelayProcess.secret.reversed())))
        let refused = await problem { () async throws(RelayClient.Failure) in _ = try await other.room("c1") }
        #expect(refused?.status == 401)
        // The old spelling stands beside the code.
        #expect(try await client.ask("GET", "/v1/rooms").self["rooms"]?.array?.count == 1)
    }

    @Test("a consumer goes on over a kill of the relay, without loss, repetition or gap") func killed() async throws {
        let relay = try RelayProcess()
        let client = try relay.client()
        var iterator = client.events(after: 0).makeAsyncIterator()
        var seen: [UInt64] = []
        func take(until type: String, in room: String) async throws {
            while let event = try await iterator.next() {
                seen.append(event.seq)
                if event.type == type, event.roomId == room { return }
            }
        }
        _ = try await client.createRoom(call("c1"))
        try await take(until: "call.initiated", in: "c1")
        relay.kill()
        try relay.start()
        #expect(try await client.endCall("c1", as: .cancelled, uid: "alice").outcome == "cancelled")
        try await take(until: "room.closed", in: "c1")
        #expect(seen == Array(1...UInt64(seen.count)))
    }

    @Test("webhooks of the relay verify, in both dialects at once, also after a kill while the endpoint was away")
    func webhooks() async throws {
        let receiver = try WebhookReceiver()
        let old = try WebhookReceiver()
        let port = receiver.port
        let secrets = [WebhookSecret.random(), WebhookSecret.random()]
        let relay = try RelayProcess([
            "--webhook", "main=http://127.0.0.1:\(port)/a", "--webhook-secret", "main=\(secrets[0])",
            "--webhook", "old=http://127.0.0.1:\(old.port)/b", "--webhook-secret", "old=\(secrets[1])",
            "--webhook-dialect", "old=legacy",
        ])
        let client = try relay.client()
        _ = try await client.createRoom(call("c1", .audio))
        #expect(receiver.wait { receiver in receiver.all.contains { self.type(of: $0) == "call.initiated" } })
        receiver.close()
        _ = try await client.endCall("c1", as: .rejected, uid: "bob")
        relay.kill()
        try receiver.open(port: port)
        try relay.start()
        #expect(receiver.wait { receiver in receiver.all.contains { self.type(of: $0) == "room.closed" } })
        let known = [try WebhookSecret(secrets[0])]
        var events: [RelayClient.Event] = []
        for received in receiver.all {
            let headers = received.request.headers
            let event = try RelayClient.webhook(
                header: { headers.first($0) }, body: received.request.body, secrets: known)
            #expect(event.id == received.id)
            if !events.contains(event) { events.append(event) }
        }
        let own = events.filter { $0.roomId == "c1" }
        #expect(own.map(\.roomSeq) == Array(1...UInt64(own.count)))
        #expect(own.map(\.type) == ["room.created", "call.initiated", "call.ended", "room.closed"])
        #expect(own[2].data["call"]?["callerUid"]?.string == "alice")

        #expect(old.wait { $0.taken.count == 2 })
        let legacy = try old.all.map { received in
            try RelayClient.webhook(
                header: { received.request.headers.first($0) }, body: received.request.body,
                secrets: [try WebhookSecret(secrets[1])])
        }
        let types = legacy.map(\.type)
        #expect(types.first == "onIncomingCallReceived" && types.last == "onOutgoingCallRejected")
        #expect(legacy.last?.data["callStatus"]?.string == "rejected")
        #expect(legacy.last?.data["callInitiator"]?.string == "alice")
        #expect(legacy.last?.data["callReceiver"]?.string == "bob")
        #expect(legacy.last?.data["callType"]?.string == "audio")
        // The same over the API, with the same cursor.
        var iterator = client.events(after: 0, dialect: .legacy).makeAsyncIterator()
        let first = try await iterator.next()
        #expect(first?.type == "onIncomingCallReceived" && first?.seq == legacy.first?.seq)
        #expect(!relay.log.contains("whsec_"))
    }

    private func type(of received: WebhookReceiver.Received) -> String? {
        (try? RelayClient.Event(json: received.request.body))?.type
    }

    @Test("a follower that is cancelled ends at once") func cancelled() async throws {
        let relay = try RelayProcess()
        let client = try relay.client()
        let task = Task {
            do throws(RelayClient.Failure) {
                for try await _ in client.events(after: 1_000_000_000, room: "none") {}
                return false
            } catch {
                return error == .cancelled
            }
        }
        try await client.endSessions(of: "nobody")
        task.cancel()
        #expect(await task.value)
    }
}

@Suite("Client library: webhooks, tokens, continuity") struct RelayClientValueTests {
    private let secret = WebhookRig.secret
    private let body = Array("{\"test\": 2432232314}".utf8)

    private func refusal(
        id: String? = "msg_1", timestamp: String? = "1000", signature: String?, now: Int64 = 1_000, secrets: [String]
    ) throws -> WebhookSignature.Refusal? {
        let known = try secrets.map { try WebhookSecret($0) }
        do throws(WebhookSignature.Refusal) {
            try WebhookSignature.verify(
                id: id, timestamp: timestamp, signature: signature, body: body, secrets: known, nowSeconds: now)
            return nil
        } catch {
            return error
        }
    }

    @Test("a signature is what an independent computation says") func vector() throws {
        // python3: hmac.new(b"0123456789abcdef0123456789abcdef", b'msg_1.1000.{"test": 2432232314}', "sha256")
        let signature = WebhookSignature.header(
            secrets: [try WebhookSecret(secret)], id: "msg_1", timestamp: 1_000, body: body)
        #expect(signature == "v1,WXU1ZE6UMrJ47w4vKYmItA4yfmjF/nyjTU7M0oZco3g=")
    }

    @Test("a webhook is taken within five minutes, both ways, and not beyond") func tolerance() throws {
        let signature = WebhookSignature.header(
            secrets: [try WebhookSecret(secret)], id: "msg_1", timestamp: 1_000, body: body)
        for now in [700, 1_000, 1_300] as [Int64] {
            #expect(try refusal(signature: signature, now: now, secrets: [secret]) == nil)
        }
        for now in [699, 1_301] as [Int64] {
            #expect(
                try refusal(signature: signature, now: now, secrets: [secret])
                    == .timestamp(offsetSeconds: now - 1_000))
        }
        #expect(
            try refusal(timestamp: "9223372036854775807", signature: signature, now: -1_000, secrets: [secret]) != nil)
    }

    @Test("one good signature among several is enough, with any of the known secrets, and nothing else is")
    func signatures() throws {
        let good = WebhookSignature.header(
            secrets: [try WebhookSecret(secret)], id: "msg_1", timestamp: 1_000, body: body)
        let other = WebhookSecret.random()
        #expect(try refusal(signature: "v1,AAAA v1a,xyz \(good)", secrets: [other, secret]) == nil)
        #expect(try refusal(signature: good, secrets: [other]) == .signature)
        #expect(try refusal(signature: good, secrets: []) == .signature)
        #expect(try refusal(id: "msg_2", signature: good, secrets: [secret]) == .signature)
        #expect(try refusal(timestamp: "1001", signature: good, secrets: [secret]) == .signature)
        for bad in ["v1,", "v1", "v2" + good.dropFirst(2), String(good.dropLast(4)), "x"] {
            #expect(try refusal(signature: bad, secrets: [secret]) == .signature, "\(bad)")
        }
        #expect(try refusal(signature: nil, secrets: [secret]) == .malformed(header: "webhook-signature"))
        #expect(try refusal(id: nil, signature: good, secrets: [secret]) == .malformed(header: "webhook-id"))
        for bad in [nil, "", "-1", "1e3", "now"] as [String?] {
            #expect(
                try refusal(timestamp: bad, signature: good, secrets: [secret])
                    == .malformed(header: "webhook-timestamp"))
        }
    }

    private func event(_ seq: UInt64, _ roomSeq: UInt64, _ type: String = "x") throws -> RelayClient.Event {
        let text =
            "{\"seq\":\(seq),\"roomSeq\":\(roomSeq),\"id\":\"evt_\(seq)\",\"type\":\"\(type)\",\"time\":\"\",\"data\":{}}"
        return try RelayClient.Event(json: Array(text.utf8))
    }

    private func gap(_ events: [RelayClient.Event], cursor: UInt64, room: Bool, whole: Bool = true) -> RelayClient
        .Failure?
    {
        var check = ContinuityCheck(cursor: cursor, isOfRoom: room, isWhole: whole)
        for event in events {
            do throws(RelayClient.Failure) { try check.take(event) } catch { return error }
        }
        return nil
    }

    @Test("a number that is missing, or comes again, is an error; a truncated log starts anew") func continuity() throws
    {
        #expect(try gap([event(4, 1), event(5, 2)], cursor: 3, room: false) == nil)
        #expect(try gap([event(5, 1)], cursor: 3, room: false) == .gap(expected: 4, got: 5))
        #expect(try gap([event(4, 1), event(4, 1)], cursor: 3, room: false) == .gap(expected: 5, got: 4))
        #expect(try gap([event(9, 0, "events.truncated"), event(10, 5)], cursor: 3, room: false) == nil)
        #expect(try gap([event(5, 2), event(9, 3)], cursor: 3, room: true) == nil)
        #expect(try gap([event(5, 2), event(9, 4)], cursor: 3, room: true) == .gap(expected: 3, got: 4))
        #expect(try gap([event(5, 2), event(9, 4)], cursor: 3, room: false, whole: false) == nil)
    }
}
