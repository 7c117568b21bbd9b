import RelayCore

// Every family of `/metrics`, the one table.

extension Metric {
    // MARK: The node
    static let build = Metric("build_info", .gauge, "1; which version runs.", labels: ["version"])
    static let ready = Metric("ready", .gauge, "1 while new rooms are taken, as /readyz says.")
    static let draining = Metric("draining", .gauge, "1 while the node drains: it takes no new rooms.")
    static let rooms = Metric("rooms", .gauge, "Rooms.", labels: ["status"], values: ["initiated", "ongoing"])
    static let participants = Metric(
        "participants", .gauge, "Participants.", labels: ["state"], values: ["connecting", "prepared", "joined"])
    static let roomsEnded = Metric(
        "rooms_ended_total", .counter, "Rooms that ended, by outcome.", labels: ["outcome"],
        values: RoomOutcome.allCases.map(\.rawValue))
    static let decisions = Metric("decisions_total", .counter, "Decisions of the conductor.")
    static let events = Metric("events_total", .counter, "Events decided.")
    static let uncommitted = Metric(
        "uncommitted_decisions", .gauge, "Decisions that wait for the disk: nothing is told or answered before.")
    static let eventLag = Metric(
        "event_streams_lag_events", .gauge,
        "Events that the event stream which is furthest behind lacks, looked at every second.")

    // MARK: Calls
    static let setup = Metric(
        "setup_seconds", .histogram, "From a session's answer to its keys: ICE and DTLS are up, media can be let in.")
    static let join = Metric(
        "join_seconds", .histogram,
        "From a request to join, as read, to the open gate of a prepared participant: what an answer waits for the relay."
    )
    static let firstMedia = Metric(
        "first_media_seconds", .histogram, "From being joined to the first packet.", labels: ["kind"],
        values: ["audio", "video"])
    static let loss = Metric(
        "leg_loss_ratio", .histogram,
        "Packets lost first-hand, before repair, of those sent: one value each 10 s of a joined leg and direction.",
        labels: ["direction"], values: ["up", "down"])
    static let jitter = Metric(
        "leg_jitter_seconds", .histogram, "Largest interarrival jitter (RFC 3550) told within 10 s of a joined leg.",
        labels: ["direction"], values: ["up", "down"])
    static let roundTrip = Metric(
        "leg_round_trip_seconds", .histogram, "Mean round trip between relay and client within 10 s of a joined leg.")

    // MARK: Journal
    static let commit = Metric("commit_seconds", .histogram, "One transaction of the journal, flushed to disk.")
    static let stored = Metric("stored_seconds", .histogram, "From a decision to its being on disk.")

    // MARK: HTTP
    static let httpConnections = Metric("http_connections", .gauge, "Open HTTP connections.")
    static let httpStreams = Metric("http_event_streams", .gauge, "Open event streams.")
    static let httpInFlight = Metric("http_requests_in_flight", .gauge, "Requests that wait for an answer.")
    static let httpRequests = Metric("http_requests_total", .counter, "Requests taken.")
    static let httpRefused = Metric(
        "http_refusals_total", .counter, "What the HTTP server turned away or ended by itself.", labels: ["reason"],
        values: ["connections", "form", "overload", "timeout", "stream-overflow", "tls", "answer"])

    // MARK: Webhooks
    static let webhookDelivered = webhook("delivered_total", .counter, "Requests answered 2xx.")
    static let webhookFailed = webhook(
        "failed_total", .counter, "Requests that were refused, timed out or did not connect.")
    static let webhookTruncated = webhook(
        "truncated_total", .counter, "Times that the log no longer had what was owed.")
    static let webhookLag = webhook("lag_events", .gauge, "Events behind the newest one, rooms in arrears aside.")
    static let webhookArrears = webhook("arrears", .gauge, "Rooms that are behind the rest.")
    static let webhookInFlight = webhook("in_flight", .gauge, "Requests that wait for an answer.")
    static let webhookState = Metric(
        "webhook_state", .gauge, "1 for the state that an endpoint is in.", labels: ["webhook", "state"],
        values: WebhookStatus.State.allCases.map(\.rawValue))

    private static func webhook(_ name: String, _ kind: Kind, _ help: String) -> Metric {
        Metric("webhook_\(name)", kind, help, labels: ["webhook"])
    }

    // MARK: Workers, as control sees them
    static let workers = Metric("workers", .gauge, "Worker processes connected.")
    static let workerUp = Metric(
        "worker_up", .gauge, "1 while this worker's link to control is up.", labels: ["worker"])
    static let workerExits = Metric(
        "worker_exits_total", .counter, "Worker processes that ended, each with its calls, drains aside.",
        labels: ["worker"])
    static let workerSilence = Metric(
        "worker_silence_seconds", .gauge, "Since the worker's last report; one is due every 2 s.", labels: ["worker"])

    // MARK: What workers take, as the conductor judges
    static let sessionsRefused = Metric(
        "sessions_refused_total", .counter, "Sessions answered 503, by what was in the way.", labels: ["reason"],
        values: Refusal.allCases.map(\.rawValue))
    static let workerOpen = load("open", "1 while it takes new sessions.")
    static let loadCPU = load("load_cpu_ratio", "Of a core, by its media loop, in the last second.")
    static let loadPackets = load("load_packets_per_second", "Datagrams received, in the last second.")
    static let loadBacklog = load("load_backlog_seconds", "Longest time behind its sockets, in the last second.")
    static let loadMemory = load("load_resident_bytes", "Its own memory.")

    private static func load(_ name: String, _ help: String) -> Metric {
        Metric("worker_\(name)", .gauge, help, labels: ["worker"])
    }

    static let groups: [(title: String, metrics: [Metric])] = [
        (
            "Node",
            [build, ready, draining, rooms, participants, roomsEnded, decisions, events, uncommitted, eventLag]
        ),
        ("Calls", [setup, join, firstMedia, loss, jitter, roundTrip]),
        ("Journal", [commit, stored]),
        ("HTTP", [httpConnections, httpStreams, httpInFlight, httpRequests, httpRefused]),
        (
            "Webhooks, each with its name",
            [
                webhookDelivered, webhookFailed, webhookTruncated, webhookLag, webhookArrears, webhookInFlight,
                webhookState,
            ]
        ),
        ("Workers, as control sees them", [workers, workerUp, workerExits, workerSilence]),
        (
            "What workers take, as the conductor judges",
            [sessionsRefused, workerOpen, loadCPU, loadPackets, loadBacklog, loadMemory]
        ),
        ("Workers, by their own count", worker),
    ]

    package static let all: [Metric] = groups.flatMap(\.metrics)

    // MARK: Workers, by their own count

    /// Found by `WorkerCounter.name`, which is the name behind `media_relay_worker_`.
    package static let worker: [Metric] = [
        own("transports", .gauge, "Sessions that it carries."),
        own(
            "cpu_seconds_total", .counter, "Processor time.", "thread", ["media", "other"], scale: 0.000_001),
        own(
            "receive_queue_bytes", .gauge,
            "What waits in its UDP sockets: near 0, but in the moment when it cannot follow."),
        own("receive_queue_limit_bytes", .gauge, "What fits into them."),
        own("receive_overflows_total", .counter, "Datagrams that the kernel dropped because a socket was full."),
        own("datagrams_received_total", .counter, "Datagrams read, of every kind."),
        own("datagrams_sent_total", .counter, "Datagrams sent, of every kind."),
        own("sent_bytes_total", .counter, "In those, UDP and IP headers aside."),
        own("receive_batches_total", .counter, "Reads that brought at least one."),
        own("send_batches_total", .counter, "Writes of at least one."),
        own(
            "send_errors_total", .counter, "Datagrams that the kernel did not take.", "reason",
            SendErrorKind.allCases.map(\.name)),
        own(
            "send_drops_total", .counter,
            "Datagrams given up because a socket's buffer stayed full, by what they were.",
            "reason", SendRank.allCases.map(\.name)),
        own("datagrams_delayed_total", .counter, "Datagrams that waited for room in a socket's buffer."),
        own("packets_received_total", .counter, "Media packets that were authentic."),
        own("received_bytes_total", .counter, "In those."),
        own("packets_forwarded_total", .counter, "Media packets made for receivers, repairs included."),
        own("forwarded_bytes_total", .counter, "In those."),
        own("packets_repaired_total", .counter, "Packets sent again because a receiver missed them."),
        own("packets_recovered_total", .counter, "Lost sound that was taken out of a later packet (RED)."),
        own("packets_made_redundant_total", .counter, "Packets of sound sent together with earlier ones (RED)."),
        own("key_frames_requested_total", .counter, "Key frames asked of senders."),
        own("checks_answered_total", .counter, "ICE checks answered."),
        own(
            "drops_total", .counter, "Datagrams, or parts of them, that were not acted on.", "reason",
            DropReason.allCases.map(\.name)),
        own(
            "handshakes_total", .counter, "DTLS: what became of handshakes, and of their datagrams.", "event",
            WorkerCounter.handshakeEvents),
        own("stream_connections", .gauge, "Open TCP connections of clients."),
        own("streams_accepted_total", .counter, "TCP connections taken."),
        own(
            "stream_ends_total", .counter, "TCP connections that ended, or were not taken.", "reason",
            StreamEnd.allCases.map(\.name)),
        own("stream_frames_received_total", .counter, "Frames read from TCP."),
        own("stream_received_bytes_total", .counter, "In those."),
        own("stream_frames_sent_total", .counter, "Frames written to TCP."),
        own("stream_sent_bytes_total", .counter, "In those."),
        own(
            "turns_total", .counter, "Turns of the media loop, by how long they took: what comes meanwhile waits.",
            "length",
            TurnLengths.names),
        own("mailbox_refusals_total", .counter, "Messages between its threads that found no room."),
        own("news_kept", .gauge, "News that control may not have taken over yet."),
        own("recordings", .gauge, "Recordings that are being made."),
        own("recordings_ended_total", .counter, "Recordings that have ended."),
        own("recorded_bytes_total", .counter, "Bytes written into recordings."),
        own("recorded_packets_dropped_total", .counter, "Packets that the recorder had no room for: a slow disk."),
        own("news_dropped_total", .counter, "News that were too many to keep while control was away."),
    ]

    private static func own(
        _ name: String, _ kind: Kind, _ help: String, _ label: String? = nil, _ values: [String] = [],
        scale: Double = 1
    ) -> Metric {
        Metric(
            "worker_\(name)", kind, help, labels: ["worker"] + (label.map { [$0] } ?? []), values: values, scale: scale)
    }
}
