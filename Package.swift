// swift-tools-version: 6.2
// MediaRelay: targets and their one-way dependencies. ARCHITECTURE.md explains the house.
import PackageDescription

/// What every Swift target is compiled with.
let common: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
]
/// Targets without owned pointers also hold to strict memory safety.
let strict: [SwiftSetting] = common + [.strictMemorySafety()]
/// C is hardened as a distribution would: guarded stacks, checked copies, branches to marked places only.
#if arch(x86_64)
    let branches = ["-fcf-protection=full"]
#else
    let branches = ["-mbranch-protection=standard"]
#endif
let cSettings: [CSetting] = [
    .unsafeFlags(
        ["-Wall", "-Wextra", "-Werror", "-fstack-protector-strong", "-fstack-clash-protection"] + branches),
    // Needs an optimizer.
    .unsafeFlags(["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], .when(configuration: .release)),
]
/// Relocations are read-only and functions bound before the first line runs.
let linkerSettings: [LinkerSetting] = [
    .unsafeFlags(["-Xlinker", "-z", "-Xlinker", "relro", "-Xlinker", "-z", "-Xlinker", "now"])
]

let package = Package(
    name: "MediaRelay",
    products: [
        .executable(name: "media-relay", targets: ["media-relay"]),
        .library(name: "MediaRelay", targets: ["MediaRelay"]),
        .library(name: "RTPCore", targets: ["RTPCore"]),
        .library(name: "RelayTesting", targets: ["RelayTesting"]),
        .library(name: "RelayClient", targets: ["RelayClient", "RelaySigning"]),
    ],
    targets: [
        // System libraries.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CSRTP", pkgConfig: "libsrtp2", providers: [.apt(["libsrtp2-dev"])]),
        .systemLibrary(name: "COpus", pkgConfig: "opus", providers: [.apt(["libopus-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        // C shims: what Swift cannot import.
        .target(name: "CLinuxIO", cSettings: cSettings),
        .target(
            name: "CMediaCrypto", cSettings: cSettings,
            linkerSettings: [.linkedLibrary("crypto"), .linkedLibrary("dl")]),
        // The product, bottom up.
        .target(name: "RTPCore", swiftSettings: strict),
        .target(
            name: "RelayCore", dependencies: ["RTPCore", "CMediaCrypto", "COpenSSL", "CSRTP", "COpus"],
            swiftSettings: common),
        .target(
            name: "RelayHTTP", dependencies: ["CLinuxIO", "COpenSSL"], swiftSettings: common),
        .target(name: "RelaySigning", dependencies: ["COpenSSL"], swiftSettings: common),
        .target(
            name: "MediaRelay",
            dependencies: [
                "RelayCore", "RTPCore", "RelayHTTP", "RelaySigning", "CLinuxIO", "CMediaCrypto", "COpenSSL", "COpus",
                "CSQLite", "CCurl",
            ],
            resources: [.embedInCode("Page")],
            swiftSettings: common),
        // The subcommands: what a human or a script at a terminal needs, over the public API.
        .target(
            name: "RelayCommands", dependencies: ["MediaRelay", "RelayClient", "RelayCore", "RelayLoadKit"],
            swiftSettings: common),
        // Clients by the thousand: `media-relay load` and the bench.
        .target(
            name: "RelayLoadKit",
            dependencies: ["RelayTesting", "RelayClient", "RelayCore", "RTPCore", "MediaRelay", "CLinuxIO"],
            swiftSettings: common),
        .executableTarget(
            name: "media-relay", dependencies: ["RelayCommands"], swiftSettings: common,
            linkerSettings: linkerSettings),
        // For signaling servers: depends on nothing of the relay but how tokens and webhooks are signed.
        .target(name: "RelayClient", dependencies: ["RelaySigning", "CCurl"], swiftSettings: common),
        // For tests, the bench and users' tests: fake clients, virtual network, simulation.
        .target(
            name: "RelayTesting",
            dependencies: ["RelayCore", "RTPCore", "CMediaCrypto", "COpenSSL", "COpus"],
            swiftSettings: common),
        // The whole relay in virtual time on a simulated disk; the program that runs it by seeds.
        .target(
            name: "RelaySimulation", dependencies: ["MediaRelay", "RelayCore", "RTPCore", "RelayTesting", "CSQLite"],
            swiftSettings: common),
        .executableTarget(
            name: "simulate", dependencies: ["RelaySimulation", "RTPCore"], path: "Tests/simulate",
            swiftSettings: common),
        // The bench: the C limit loop, alone as a process, and the product beside it.
        .target(
            name: "CLimit", dependencies: ["CMediaCrypto"], path: "bench/CLimit",
            cSettings: cSettings),
        .executableTarget(
            name: "RelayLimit", dependencies: ["CLimit"], path: "bench/RelayLimit", cSettings: cSettings),
        .executableTarget(
            name: "RelayBench",
            dependencies: [
                "CLimit", "CMediaCrypto", "RelayTesting", "RelayCore", "RTPCore", "MediaRelay", "CLinuxIO",
            ],
            path: "bench/RelayBench", swiftSettings: common),
        // The load program: real calls, crossings and kills against the built relay.
        .target(name: "CHeap", path: "bench/CHeap", cSettings: cSettings),
        .executableTarget(
            name: "RelayLoad",
            dependencies: [
                "CHeap", "CLimit", "RelayLoadKit", "RelayTesting", "RelayCore", "RTPCore", "MediaRelay", "CLinuxIO",
            ],
            path: "bench/RelayLoad", swiftSettings: common),
        // Tests.
        .target(name: "CMallocCount", path: "Tests/CMallocCount", cSettings: cSettings),
        .testTarget(
            name: "RTPCoreTests", dependencies: ["RTPCore", "RelayTesting", "COpenSSL", "COpus"],
            swiftSettings: common),
        .testTarget(
            name: "RelayCoreTests",
            dependencies: ["RelayCore", "RTPCore", "RelayTesting", "CMediaCrypto", "COpenSSL", "CSRTP"],
            swiftSettings: common),
        .testTarget(
            name: "RelayHTTPTests", dependencies: ["RelayHTTP", "RelayTesting", "CLinuxIO", "COpenSSL"],
            swiftSettings: common),
        .testTarget(
            name: "MediaRelayTests",
            dependencies: [
                "MediaRelay", "RelayCore", "RTPCore", "RelayHTTP", "RelaySigning", "RelayTesting", "RelayClient",
                "RelayCommands", "RelayLoadKit", "CLinuxIO", "COpenSSL", "COpus", "CSQLite",
            ],
            swiftSettings: common),
        .testTarget(
            name: "RelayScenarioTests", dependencies: ["RelayCore", "RTPCore", "RelayTesting", "COpus"],
            swiftSettings: common),
        .testTarget(
            name: "SimulationTests",
            dependencies: ["RelayCore", "RTPCore", "RelayTesting", "RelaySimulation", "CSQLite"],
            swiftSettings: common),
        .testTarget(
            name: "AllocationTests",
            dependencies: ["RelayCore", "RTPCore", "RelayTesting", "CMallocCount"],
            swiftSettings: common),
    ]
)

// The fuzzers (Tests/fuzz) are built by themselves, by scripts/fuzz.py: the program's main is libFuzzer's. They share the
// histories of calls with the tests.
if Context.environment["RELAY_FUZZ"] != nil {
    package.targets.removeAll { $0.type == .test }
    package.targets.append(
        .target(
            name: "RelayFuzz",
            dependencies: ["MediaRelay", "RelayCore", "RTPCore", "RelayHTTP", "RelaySigning", "RelayTesting"],
            path: "Tests",
            exclude: ["CMallocCount", "Fixtures", "fuzz/crashes", "interop", "lab", "simulate"],
            sources: [
                "fuzz", "RelayCoreTests/Model/History.swift", "RelayCoreTests/Model/History+Moves.swift",
                "RelayCoreTests/Model/HistoryRules.swift", "RelayCoreTests/Conductor/ConductorSupport.swift",
            ],
            swiftSettings: common))
}
