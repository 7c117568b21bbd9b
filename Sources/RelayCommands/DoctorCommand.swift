import Glibc
import MediaRelay
import RelayClient

/// `media-relay doctor`: shows what the doctor finds about a node with the same options on this host.
enum DoctorCommand {
    static func run(
        _ arguments: [String], _ environment: [String: String], _ terminal: Terminal, output: (String) -> Void
    ) -> ExitCode {
        let findings: [Finding]
        var nodeOptions = arguments.filter { $0 != "--json" }
        var stun: String?
        if let at = nodeOptions.firstIndex(of: "--stun"), at + 1 < nodeOptions.count {
            stun = nodeOptions[at + 1]
            nodeOptions.removeSubrange(at...at + 1)
        }
        do throws(ServeOptions.Refusal) {
            let options = try ServeOptions(
                arguments: nodeOptions, environment: environment,
                processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)))
            let source = options.configFile.map { "good, with \($0)" } ?? "good, without a file"
            findings =
                [Finding("configuration", .ok, source)]
                + Doctor.findings(options, HostProbe.facts(for: options, stun: stun))
        } catch {
            findings = [
                Finding(
                    "configuration", .fail, error.description,
                    advice: "a node with these options does not start; nothing else was looked at")
            ]
        }
        output(arguments.contains("--json") ? json(of: findings) + "\n" : text(of: findings, on: terminal))
        return findings.contains { $0.status == .fail } ? .failed : .done
    }

    static func text(of findings: [Finding], on terminal: Terminal) -> String {
        let width = findings.map(\.check.count).max() ?? 0
        var text = ""
        for finding in findings {
            let (word, colour): (String, Terminal.Colour) =
                switch finding.status {
                case .ok: ("ok  ", .green)
                case .warn: ("warn", .yellow)
                case .fail: ("FAIL", .red)
                }
            let detail = Terminal.printable(finding.detail)
            text += "\(terminal.paint(word, colour))  \(RoomDrawing.pad(finding.check, width))  \(detail)\n"
            guard let advice = finding.advice else { continue }
            text += String(repeating: " ", count: width + 8)
            text += terminal.paint((terminal.hasUnicode ? "→ " : "> ") + Terminal.printable(advice), .grey) + "\n"
        }
        func count(_ status: Finding.Status) -> Int { findings.count { $0.status == status } }
        return text + "\n\(count(.ok)) ok, \(count(.warn)) to improve, \(count(.fail)) failed\n"
    }

    static func json(of findings: [Finding]) -> String {
        let worst: Finding.Status =
            findings.contains { $0.status == .fail } ? .fail : findings.contains { $0.status == .warn } ? .warn : .ok
        let values = findings.map { finding in
            var fields: [String: RelayClient.JSON] = [
                "check": .string(finding.check), "status": .string(finding.status.rawValue),
                "detail": .string(finding.detail),
            ]
            if let advice = finding.advice { fields["advice"] = .string(advice) }
            return RelayClient.JSON.object(fields)
        }
        return NodeCommands.text(
            of: RelayClient.JSON.object(["findings": .array(values), "status": .string(worst.rawValue)]))
    }
}
