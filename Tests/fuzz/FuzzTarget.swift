import Foundation

// The frame of the fuzzers: what a target is, and libFuzzer's entry points. One program holds every target; FUZZ_TARGET names
// the one that runs. `scripts/fuzz.py` builds it and drives it; docs/testing.md says how.

/// One reader, or one state machine, and what must hold of it for any bytes.
struct FuzzTarget: Sendable {
    var name: String
    /// Longest input that is tried, bytes.
    var byteLimit: Int
    /// Inputs to begin with.
    var seeds: @Sendable () -> [[UInt8]]
    /// Takes one input; ends the process where a promise is broken.
    var run: @Sendable ([UInt8]) -> Void

    static let all: [FuzzTarget] = [
        .stun, .rtp, .red, .rtcp, .feedback, .extendedReport, .congestion, .descriptors, .dependency, .ogg, .recording,
        .framing,
        .address,
        .sdp, .trickle, .json, .http, .requests, .token, .link, .journal, .database, .dtls, .datagram, .media, .calls,
    ]
}

/// Ends the process, so that the fuzzer keeps the input.
func require(_ condition: Bool, _ promise: @autoclosure () -> String) {
    guard !condition else { return }
    fatalError("broken promise: \(promise())")
}

private nonisolated(unsafe) var target = FuzzTarget.stun

@_cdecl("LLVMFuzzerInitialize")
public func initializeFuzzer(_ argc: UnsafeMutableRawPointer?, _ argv: UnsafeMutableRawPointer?) -> CInt {
    let environment = ProcessInfo.processInfo.environment
    if environment["FUZZ_LIST"] != nil {
        for target in FuzzTarget.all { print(target.name, target.byteLimit) }
        exit(0)
    }
    guard let found = FuzzTarget.all.first(where: { $0.name == environment["FUZZ_TARGET"] }) else {
        fatalError("FUZZ_TARGET names no target; FUZZ_LIST=1 lists them")
    }
    target = found
    if let folder = environment["FUZZ_SEEDS"] {
        write(found.seeds(), to: folder)
        exit(0)
    }
    return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let data, count > 0 else { return 0 }
    target.run(Array(UnsafeBufferPointer(start: data, count: count)))
    return 0
}

private func write(_ seeds: [[UInt8]], to folder: String) {
    do {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (number, seed) in seeds.enumerated() where !seed.isEmpty {
            try Data(seed).write(to: URL(fileURLWithPath: folder).appendingPathComponent("seed-\(number)"))
        }
    } catch {
        fatalError("the seeds cannot be written: \(error)")
    }
}
