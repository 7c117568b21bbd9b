import RelayCore
import Testing

@testable import MediaRelay

@Suite("Serve options") struct ServeOptionsTests {
    private func options(_ arguments: [String], _ environment: [String: String] = ["HOME": "/home/u"]) throws
        -> ServeOptions
    {
        try ServeOptions(arguments: arguments, environment: environment, processors: 4)
    }

    private func refusal(_ arguments: [String], _ environment: [String: String] = ["HOME": "/home/u"]) -> String? {
        do throws(ServeOptions.Refusal) {
            _ = try ServeOptions(arguments: arguments, environment: environment, processors: 4)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("without flags: loopback HTTP, media on all addresses, state folder, a core left free") func defaults() throws
    {
        let options = try options([])
        #expect(options.http == [.init(address: "127.0.0.1", port: 8_080)])
        #expect(options.admin == .init(address: "127.0.0.1", port: 8_081))
        #expect(options.media.map(\.address) == ["0.0.0.0", "::"])
        #expect(options.data == "/home/u/.local/state/media-relay")
        #expect(options.workers == 3)
        #expect(!options.demo)
    }

    @Test("a worker takes as many sessions as it is told, but no more than its engine has room for") func transports()
        throws
    {
        #expect(try options([]).transportsPerWorker == 2_000)
        #expect(try options(["--transports-per-worker", "8192"]).transportsPerWorker == 8_192)
        #expect(refusal(["--transports-per-worker", "8193"]) != nil)
        #expect(refusal(["--transports-per-worker", "0"]) != nil)
    }

    @Test("a worker's overload bounds are options with ranges, and can be switched off as a whole")
    func overload() throws {
        var bounds = AdmissionBounds()
        #expect(try options([]).admission == bounds)
        bounds = try options(
            [
                "--overload-cpu", "60", "--overload-backlog", "0", "--overload-packets", "9000", "--overload-memory",
                "64",
            ]
        ).admission
        #expect(bounds.isOn && bounds.cpuPercent == 60 && bounds.backlogMs == 0)
        #expect(bounds.packetsPerSecond == 9_000 && bounds.mebibytes == 64)
        #expect(try !options(["--admission", "off"]).admission.isOn)
        #expect(refusal(["--admission", "false"]) != nil && refusal(["--overload-cpu", "101"]) != nil)
        let reloaded = try options(["--overload-cpu", "50", "--admission", "off"])
        var running = try options([])
        #expect(running.differences(from: reloaded) == [.admission, .overloadCPU])
        for name in running.differences(from: reloaded) { running.take(name, from: reloaded) }
        #expect(running.admission == reloaded.admission)
    }

    @Test("flags win over the environment, option by option") func environment() throws {
        let environment = [
            "HOME": "/h", "MEDIA_RELAY_HTTP": "127.0.0.1:1", "MEDIA_RELAY_DATA": "/d", "MEDIA_RELAY_DEMO": "true",
            "MEDIA_RELAY_ANNOUNCE": "192.0.2.1 192.0.2.2",
        ]
        let options = try options(["--http", "127.0.0.1:2"], environment)
        #expect(options.http.map(\.port) == [2])
        #expect(options.data == "/d")
        #expect(options.demo)
        #expect(options.announce == ["192.0.2.1", "192.0.2.2"])
    }

    @Test("webhooks and retention come by flags or by the environment") func webhooks() throws {
        let environment = [
            "HOME": "/h", "MEDIA_RELAY_WEBHOOK": "a=https://a.example b=https://b.example",
            "MEDIA_RELAY_RETAIN_HOURS": "2",
        ]
        let options = try options(
            [
                "--webhook-secret", "a=@/s", "--webhook-secret", "b=@/t", "--webhook-dialect", "b=legacy",
                "--webhook-ca", "/ca", "--webhook-insecure-http", "--retain-mebibytes", "3", "--retain-events", "5000",
            ], environment)
        #expect(options.webhooks == ["a=https://a.example", "b=https://b.example"])
        #expect(options.webhookSecrets == ["a=@/s", "b=@/t"] && options.webhookDialects == ["b=legacy"])
        #expect(options.webhookAuthorities == "/ca" && options.webhookInsecureHTTP)
        #expect(options.retention.ageMs == 7_200_000 && options.retention.byteCount == 3 << 20)
        #expect(options.retention.events == 5_000)
        #expect(refusal(["--retain-hours", "0"])?.contains("1…8760") == true)
    }

    @Test("IPv6 addresses stand in brackets") func ipv6() throws {
        #expect(try options(["--http", "[::1]:8080"]).http == [.init(address: "::1", port: 8_080)])
    }

    @Test("the admin listener can be switched off") func adminOff() throws {
        #expect(try options(["--admin", "off"]).admin == nil)
    }

    @Test("media over TCP has the media port, another one, or is off") func mediaTCP() throws {
        #expect(try options([]).mediaTCP == .mediaPort)
        #expect(try options(["--media-tcp", "443"]).mediaTCP == .ports(first: 443))
        for text in ["off", "0"] { #expect(try options(["--media-tcp", text]).mediaTCP == .off) }
    }

    @Test("plain HTTP beyond loopback needs a word") func insecure() throws {
        #expect(refusal(["--http", "0.0.0.0:8080"])?.contains("--insecure-http") == true)
        #expect(try options(["--http", "0.0.0.0:8080", "--insecure-http"]).insecureHTTP)
        #expect(try options(["--http", "0.0.0.0:8443", "--tls-cert", "c", "--tls-key", "k"]).tlsKey == "k")
    }

    @Test("a certificate without its key is refused") func certificate() {
        #expect(refusal(["--tls-cert", "c"]) == "--tls-cert and --tls-key go together")
    }

    @Test(
        "what is malformed is refused naming option and value",
        arguments: [
            ["--http", "8080"], ["--http", "localhost:80"], ["--media", "127.0.0.1:99999"], ["--workers", "0"],
            ["--workers", "+2x"], ["--log", "xml"], ["--log-level", "loud"], ["--gather", "maybe"],
            ["--max-token-lifetime", "1"], ["--bogus", "1"], ["--data"],
            ["--media-tcp", "443x"],
        ])
    func malformed(_ arguments: [String]) { #expect(refusal(arguments)?.contains(arguments[0]) == true) }

    @Test("an option that can be given once is refused twice") func twice() {
        #expect(refusal(["--data", "/a", "--data", "/b"])?.contains("--data") == true)
    }

    @Test("all media addresses share one port") func mediaPorts() {
        #expect(refusal(["--media", "127.0.0.1:1", "--media", "127.0.0.2:2"])?.contains("one port") == true)
    }

    @Test("a short secret is refused without showing it") func shortSecret() {
        #expect {
            try KeyLoader.keys(["k1:short-secret"])
        } throws: { error in
            "\(error)".contains("32") && !"\(error)".contains("short-secret")
        }
    }

    @Test("the same key id twice is refused") func keyTwice() {
        let key = "k1:0123456789abcdef0123456789abcdef"
        #expect(throws: KeyLoader.Failure.self) { try KeyLoader.keys([key, key]) }
    }
}
