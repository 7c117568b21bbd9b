/// Every option of a node, by the one name that it has everywhere: `--NAME` as a flag, `MEDIA_RELAY_NAME` in the environment,
/// `NAME` in the file. What each of them is stands in `NodeOption`.
package enum OptionName: String, CaseIterable, Sendable {
    case config
    case http, admin, media
    case mediaTCP = "media-tcp"
    case announce
    case data, workers, gather, prompts, demo
    case recordings
    case recordingMinutes = "recording-minutes"
    case recordingMebibytes = "recording-mebibytes"
    case recordingsMebibytes = "recordings-mebibytes"
    case transportsPerWorker = "transports-per-worker"
    case admission
    case overloadCPU = "overload-cpu"
    case overloadBacklog = "overload-backlog"
    case overloadPackets = "overload-packets"
    case overloadMemory = "overload-memory"
    case upgradeDeadline = "upgrade-deadline"
    case key
    case maxTokenLifetime = "max-token-lifetime"
    case requestsPerSecond = "requests-per-second"
    case tlsCertificate = "tls-cert"
    case tlsKey = "tls-key"
    case insecureHTTP = "insecure-http"
    case webhook
    case webhookSecret = "webhook-secret"
    case webhookDialect = "webhook-dialect"
    case webhookAuthorities = "webhook-ca"
    case webhookInsecureHTTP = "webhook-insecure-http"
    case retainHours = "retain-hours"
    case retainEvents = "retain-events"
    case retainMebibytes = "retain-mebibytes"
    case log
    case logLevel = "log-level"

    package var flag: String { "--" + rawValue }

    package var variable: String {
        "MEDIA_RELAY_" + String(rawValue.uppercased().map { $0 == "-" ? "_" : $0 })
    }
}
