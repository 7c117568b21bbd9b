import RTPCore
import RelayCore

/// Everything that can happen to a room, each with the name that the table gives it.
enum TableInput: Sendable {
    /// A request of somebody; nil where that somebody cannot even write it (no session to name).
    case verb(String, @Sendable (TableScene, TableRole) -> ControlRequest?)
    /// A worker's word about somebody's transport.
    case news(String, @Sendable (HarnessParticipant, Instant) -> WorkerNews)
    case timer(TableTimer)
    /// Of the node.
    case node(String, @Sendable (TableScene) -> Void)

    var name: String {
        switch self {
        case .verb(let name, _), .node(let name, _): name
        case .news(let name, _): "news \(name)"
        case .timer(let timer): "timer \(timer.rawValue)"
        }
    }

    static let all: [TableInput] = verbs + words + TableTimer.allCases.map(TableInput.timer) + nodes

    private static let verbs: [TableInput] = [
        prepare("prepare", .prepared),
        prepare("prepare joined", .joined),
        prepare("prepare on-answer", .prepared, joinOnAnswer: true),
        .verb("ringing") { scene, _ in .ringing(scene.room) },
        .verb("answer") { scene, _ in .answer(scene.room) },
        join("join"),
        join("join takeover", takeover: true),
        join("join end=others", endOthers: true),
        end("end cancelled", .cancelled),
        end("end rejected", .rejected),
        end("end rejected device", .rejected, .device),
        end("end busy", .busy),
        end("end unanswered", .unanswered),
        end("end ended", .ended),
        .verb("leave") { scene, role in scene.session(of: role).map { .leave(scene.room, $0.id) } },
        .verb("kick") { scene, role in scene.session(of: role).map { .kick(scene.room, $0.id) } },
        .verb("restart ICE") { scene, role in
            let fragment = "a=ice-ufrag:restarted\r\na=ice-pwd:zyxwvutsrqponmlkjihgfedc\r\n"
            return scene.session(of: role).map {
                .trickle(scene.room, $0.id, ifMatch: "*", fragment: Array(fragment.utf8))
            }
        },
        .verb("hold") { scene, role in
            scene.session(of: role).map { .changeMedia(scene.room, $0.id, MediaChange(isHeld: true)) }
        },
        .verb("mute by server") { scene, role in
            scene.session(of: role).map { .changeMediaByServer(scene.room, $0.id, ServerMediaChange(audio: .muted)) }
        },
        .verb("slots") { scene, role in
            scene.session(of: role).map { .requestSlots(scene.room, $0.id, [SlotRequest(mid: "1", height: 240)]) }
        },
        .verb("ask for video") { scene, role in .video(scene.room, .request, uid: role == .server ? "ben" : nil) },
        .verb("look") { scene, _ in .room(scene.room) },
        .verb("pushed") { scene, _ in .pushed(scene.room, uid: "ben", device: "phone") },
        .verb("logout ben") { _, _ in .logout(uid: "ben") },
        .verb("logout alice") { _, _ in .logout(uid: "alice") },
        .verb("delete") { scene, _ in .deleteRoom(scene.room, reason: nil) },
        .verb("create again") { scene, _ in
            scene.harness.record(scene.room).map { .createRoom($0.specification) }
        },
        .verb("create glare") { scene, _ in
            guard let ring = scene.harness.record(scene.room)?.specification.ring else { return nil }
            var specification = RoomSpecification(id: nil, kind: .peer, media: .video)
            specification.ring = RingSpecification(caller: ring.callees[0], callees: [ring.caller])
            return .createRoom(specification)
        },
    ]

    private static func prepare(_ name: String, _ state: PrepareState, joinOnAnswer: Bool = false) -> TableInput {
        .verb(name) { scene, _ in
            .prepare(scene.room, state: state, offer: conductorOffer(ufrag: "other"), joinOnAnswer: joinOnAnswer)
        }
    }

    private static func join(_ name: String, endOthers: Bool = false, takeover: Bool = false) -> TableInput {
        .verb(name) { scene, role in
            scene.session(of: role).map { .join(scene.room, $0.id, endOthers: endOthers, takeover: takeover) }
        }
    }

    private static func end(_ name: String, _ status: EndStatus, _ scope: EndScope = .user) -> TableInput {
        .verb(name) { scene, role in
            .end(scene.room, status, uid: role == .server ? "ben" : nil, scope: scope)
        }
    }

    private static let words: [TableInput] = [
        .news("prepared") { .prepared($0.handle, at: $1) },
        .news("joined") { .joined($0.handle, at: $1) },
        .news("interrupted") { .interrupted($0.handle, at: $1) },
        .news("recovered") { .recovered($0.handle, at: $1) },
        .news("path-changed") { .pathChanged($0.handle, at: $1) },
        .news("media") { .media($0.handle, .audio, at: $1) },
        .news("statistics") { .statistics($0.handle, TransportStatistics(), at: $1) },
        .news("slots") { .slots($0.handle, [], at: $1) },
        .news("speaker") { .speaker($0.handle, at: $1) },
        .news("closed") { .ended($0.handle, .closed, at: $1, TransportStatistics()) },
        .news("lost") { .ended($0.handle, .lost, at: $1, TransportStatistics()) },
        .news("dtls failed") { .ended($0.handle, .handshakeFailed, at: $1, TransportStatistics()) },
        .news("peer-left") { .ended($0.handle, .peerLeft, at: $1, TransportStatistics()) },
    ]

    private static let nodes: [TableInput] = [
        .node("worker detached") { $0.harness.decide(.workerDetached(ConductorHarness.worker(0))) },
        .node("worker forgot all") { $0.harness.connect(ConductorHarness.worker(0)) },
        .node("worker gone") { $0.harness.lose(ConductorHarness.worker(0)) },
        .node("next boot") {
            $0.harness.restart(isSameBoot: false)
            $0.harness.decide(.timer)
        },
        .node("drain") { $0.harness.decide(.drain) },
    ]
}
