import RTPCore

// Whether a worker takes anybody new, by what it measures of itself. Refusing comes at a session's first request, while there is
// nothing yet that could be lost; who is in, rings or comes back is let through (`Conductor+Prepare`). Pure arithmetic.

/// From what on a worker takes nobody new. It opens again when all that is measured has fallen under `reopening` of its bound, so
/// that a worker near a bound does not open and close with every call.
public struct AdmissionBounds: Hashable, Sendable {
    /// Off: only the number of transports bounds a worker.
    public var isOn = true
    /// Of a core, by the media loop's thread; 1…100.
    public var cpuPercent = 85
    /// Milliseconds in which the worker did not catch up with its sockets.
    public var backlogMs = 100
    /// Datagrams received a second; 0: any.
    public var packetsPerSecond = 0
    /// MiB of a worker's own memory; 0: any.
    public var mebibytes = 4_096
    public init() {}

    /// 85 % of a core closes, under 70 % opens.
    static let reopening = 0.82
}

/// What stands in the way of somebody new; the metric's label.
public enum Refusal: String, CaseIterable, Sendable {
    case cpu, backlog, packets, memory, transports
    /// No worker is connected.
    case noWorker = "no-worker"
}

/// What one worker carries, by its reports, and whether it takes somebody new.
public struct WorkerAdmission: Hashable, Sendable {
    /// Nil: open.
    public private(set) var closedBy: Refusal?
    /// Of a core, 0…100 and more.
    public private(set) var cpuPercent = 0.0
    public private(set) var packetsPerSecond = 0.0
    public private(set) var backlog = Interval.zero
    public private(set) var residentBytes: UInt64 = 0
    private var last: WorkerLoad?
    /// When the last report came, those who were on the worker.
    private var transportsThen = 0
    private static let tellingTransports = 20

    public init() {}

    /// A report. One that comes too soon after the last one, or whose totals have fallen (the link's bytes say anything), tells
    /// nothing of rates.
    public mutating func take(_ load: WorkerLoad, transports: Int, bounds: AdmissionBounds) {
        if let last, load.at - last.at >= .milliseconds(100), load.cpu >= last.cpu, load.packets >= last.packets {
            let elapsed = Double((load.at - last.at).nanoseconds)
            cpuPercent = Double((load.cpu - last.cpu).nanoseconds) / elapsed * 100
            packetsPerSecond = Double(load.packets - last.packets) / elapsed * 1e9
        }
        backlog = load.backlog
        residentBytes = load.residentBytes
        last = load
        transportsThen = transports
        judge(bounds)
    }

    /// What the worker will carry with those who came since its report: they cost what the others do.
    public func expectedPercent(transports: Int) -> Double {
        guard transports > transportsThen, transportsThen > 0 else { return cpuPercent }
        return cpuPercent * Double(transports) / Double(transportsThen)
    }

    /// Why the worker, with so many transports now, takes nobody new; nil: it does.
    public func refusal(transports: Int, bounds: AdmissionBounds) -> Refusal? {
        guard bounds.isOn else { return nil }
        if let closedBy { return closedBy }
        // Nobody has measured yet what those cost who came since: as much as the others, where these are enough to tell.
        let isTelling = transportsThen >= Self.tellingTransports
        return isTelling && expectedPercent(transports: transports) >= Double(bounds.cpuPercent) ? .cpu : nil
    }

    mutating func judge(_ bounds: AdmissionBounds) {
        closedBy = firstOver(bounds, share: closedBy == nil ? 1 : AdmissionBounds.reopening)
    }

    private func firstOver(_ bounds: AdmissionBounds, share: Double) -> Refusal? {
        func isOver(_ value: Double, _ bound: Int) -> Bool { bound > 0 && value >= Double(bound) * share }
        if isOver(cpuPercent, bounds.cpuPercent) { return .cpu }
        if isOver(Double(backlog.microseconds) / 1_000, bounds.backlogMs) { return .backlog }
        if isOver(packetsPerSecond, bounds.packetsPerSecond) { return .packets }
        if isOver(Double(residentBytes) / 1_048_576, bounds.mebibytes) { return .memory }
        return nil
    }

    /// What the worker's bound is and what it measured, for the problem document.
    func detail(_ refusal: Refusal, bounds: AdmissionBounds) -> String {
        switch refusal {
        case .cpu: "the media worker uses \(Int(cpuPercent.rounded())) % of a core; its limit is \(bounds.cpuPercent)"
        case .backlog:
            "the media worker was behind its sockets for \(backlog.milliseconds) ms; its limit is \(bounds.backlogMs)"
        case .packets:
            "the media worker gets \(Int(min(packetsPerSecond, 1e15))) packets a second; its limit is \(bounds.packetsPerSecond)"
        case .memory:
            "the media worker holds \(residentBytes >> 20) MiB; its limit is \(bounds.mebibytes)"
        case .transports, .noWorker: "the media worker takes nobody new"
        }
    }
}
