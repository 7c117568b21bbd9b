import RTPCore

extension Conductor {
    /// The room's worker tells what passes. One capture a worker; it says so itself when there is another one.
    func capture(
        _ id: RoomID, _ specification: CaptureSpecification, for principal: Principal
    ) throws(Problem) -> ControlReply {
        _ = try requireServer(principal)
        let room = try room(id, for: principal)
        guard let worker = room.record.worker else {
            throw Problem(status: 409, code: "nobody-in", detail: "Nobody is in \(id): there is nothing to capture.")
        }
        guard workers[worker]?.isConnected == true else {
            throw Problem(
                status: 503, code: "worker-away", detail: "The worker of \(id) is away.", retryAfterSeconds: 1)
        }
        guard workers[worker]?.canCapture == true else {
            throw Self.outdated(
                "The worker of \(id) is of an earlier build, which cannot capture: it goes with its rooms.")
        }
        let capture = CaptureID(random.next())
        command(
            .capture(
                CaptureOrder(
                    id: capture, room: room.record.handle, duration: specification.duration,
                    byteLimit: specification.byteLimit)), to: worker)
        return .capturing(capture, worker)
    }

    static func outdated(_ detail: String) -> Problem { Problem(status: 409, code: "worker-outdated", detail: detail) }
}
