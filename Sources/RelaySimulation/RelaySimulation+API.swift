import MediaRelay
import RTPCore
import RelayCore

// Requests: on their way, inside, answered, broken off. Whoever is broken off does not know whether it was carried out.

struct PendingRequest {
    var principal: Principal
    var request: ControlRequest
    var key: IdempotencyKey?
    /// Control has it.
    var isInside = false
    /// Nil: the connection broke, or nobody listened.
    var then: (ControlReply?) -> Void
}

extension RelaySimulation {
    static let server = Principal.server(keyID: "k")

    /// Sends a request once.
    func send(
        _ principal: Principal, _ request: ControlRequest, key: IdempotencyKey? = nil,
        then: @escaping (ControlReply?) -> Void
    ) {
        let id = nextRequest
        nextRequest += 1
        tally.requests += 1
        requests[id] = PendingRequest(principal: principal, request: request, key: key, then: then)
        schedule(after: .microseconds(Int64(200 + draw(25_000)))) { [unowned self] in arrive(id) }
    }

    private func arrive(_ id: UInt64) {
        guard let pending = requests[id] else { return }
        guard let control else { return breakOff(id) }
        requests[id]?.isInside = true
        control.receive(id, pending.principal, pending.request, .response, once: pending.key, now: nodeNow)
    }

    private func breakOff(_ id: UInt64) {
        guard let pending = requests.removeValue(forKey: id) else { return }
        schedule(after: milliseconds(1...40)) { pending.then(nil) }
    }

    /// Control is gone, and with it every connection.
    func breakOffRequests() {
        for id in requests.keys.sorted() where requests[id]?.isInside == true { breakOff(id) }
    }

    /// Control answers: from here on what it said holds, whatever happens.
    func answered(_ answer: ControlAnswer) {
        guard let pending = requests.removeValue(forKey: answer.request) else {
            return fail("an answer to a request that nobody made, or the second one")
        }
        acknowledge(answer.reply)
        // Sometimes the connection breaks when the answer has left.
        let isHeard = draw(60) > 0
        schedule(after: .microseconds(Int64(200 + draw(25_000)))) { pending.then(isHeard ? answer.reply : nil) }
    }

    private func acknowledge(_ reply: ControlReply) {
        tally.acknowledged += 1
        switch reply {
        case .problem(let problem):
            if problem.status == 500 { fail("a request was answered with 500: \(problem)") }
        case .room(let view), .created(let view, _), .joined(let view):
            // The view's cursor goes with what is on disk.
            if view.seq > journalAudit.newest { fail("an answer tells of event \(view.seq), which is not stored") }
            if let outcome = view.outcome { eventAudit.answered(outcome, of: view.id) }
        case .repeated: tally.repeated += 1
        default: break
        }
    }

    /// Sends a request until it is answered, by the same key if it has one.
    func ask(
        _ principal: Principal, _ request: ControlRequest, isKeyed: Bool, tries: Int = 15,
        then: @escaping (ControlReply) -> Void = { _ in }
    ) {
        var key: IdempotencyKey?
        if isKeyed {
            keyCount += 1
            key = IdempotencyKey(text: "key\(keyCount)", digest: "\(keyCount)")
        }
        attempt(principal, request, key, tries: tries, then: then)
    }

    private func attempt(
        _ principal: Principal, _ request: ControlRequest, _ key: IdempotencyKey?, tries: Int,
        then: @escaping (ControlReply) -> Void
    ) {
        send(principal, request, key: key) { [unowned self] reply in
            let isToBeTriedAgain =
                if case .problem(let problem)? = reply { problem.status == 503 } else { reply == nil }
            guard let reply, !isToBeTriedAgain else {
                guard tries > 1 else { return }
                schedule(after: milliseconds(100...1_500)) { [unowned self] in
                    attempt(principal, request, key, tries: tries - 1, then: then)
                }
                return
            }
            if let key { repeatLater(principal, request, key, reply) }
            then(reply)
        }
    }

    /// The same request with the same key gets the same answer, whoever has died meanwhile.
    private func repeatLater(
        _ principal: Principal, _ request: ControlRequest, _ key: IdempotencyKey, _ reply: ControlReply
    ) {
        if case .problem(let problem) = reply, problem.status == 429 || problem.status >= 500 { return }
        guard draw(2) == 0 else { return }
        let first: StoredAnswer =
            if case .repeated(let stored) = reply { stored } else { Answers.text(of: reply, to: request) }
        schedule(after: milliseconds(10...9_000)) { [unowned self] in
            send(principal, request, key: key) { [unowned self] again in
                guard let again else { return }
                guard case .repeated(let second) = again else {
                    return fail("a repeated key was answered anew: \(again), first \(first.status)")
                }
                if second != first { fail("a repeated key was answered otherwise: \(second), first \(first)") }
            }
        }
    }
}
