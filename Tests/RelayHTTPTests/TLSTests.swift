import COpenSSL
import Foundation
import RelayHTTP
import Testing

/// TLS: versions, ALPN, certificates and their reload.
struct TLSTests {
    @Test("requests and streams work over TLS as they do without")
    func serves() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(
            certificate: certificate,
            application: { server, request in
                guard request.target == "/stream" else { return TestServer.echo(server, request) }
                server.openStream(request.id, headers: [])
                server.write(request.id, Array("data: x\n\n".utf8))
            })
        let client = try test.connectTLS(try ClientContext())
        #expect(client.tlsVersion == "TLSv1.3" && client.certificateName == "relay.test")
        #expect(try client.request(Text.post("Content-Length: 2", body: "{}")).text == "POST /a {}")
        client.send("GET /stream HTTP/1.1\r\nHost: r\r\n\r\n")
        #expect(try client.readHead().status == 200)
        #expect(try client.readChunk() == Array("data: x\n\n".utf8))
    }

    @Test("TLS 1.2 is spoken and anything older is refused")
    func versions() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate)
        let client = try test.connectTLS(try ClientContext(maximumVersion: TLS1_2_VERSION))
        #expect(client.tlsVersion == "TLSv1.2")
        #expect(try client.get("/a").status == 200)
        for old in [TLS1_1_VERSION, TLS1_VERSION] {
            #expect(throws: RawClient.Failure.self) {
                try test.connectTLS(try ClientContext(maximumVersion: old))
            }
        }
    }

    @Test("ALPN takes http/1.1 from any place in the offer")
    func alpn() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate)
        let offer: [UInt8] = [2] + Array("h2".utf8) + [8] + Array("http/1.1".utf8)
        let client = try test.connectTLS(try ClientContext(), protocols: offer)
        #expect(client.selectedProtocol == "http/1.1")
        #expect(try client.get("/a").status == 200)
    }

    @Test(
        "an ALPN offer without http/1.1 ends the handshake",
        arguments: ["h2", "http/1.0", "http/1.1x", "HTTP/1.1"])
    func alpnMismatch(name: String) throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate)
        #expect(throws: RawClient.Failure.self) {
            try test.connectTLS(try ClientContext(), protocols: [UInt8(name.utf8.count)] + Array(name.utf8))
        }
        #expect(test.waitForCounters { $0.tlsFailures == 1 })
    }

    @Test("plain HTTP on a TLS port is closed without a plain answer")
    func plainOnSecure() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate)
        let client = try test.connect()
        client.send(Text.get())
        #expect(!String(decoding: client.readToEnd(), as: UTF8.self).contains("HTTP/1.1"))
        #expect(test.requests.isEmpty)
    }

    @Test("a plain listener stays plain beside a secure one, and the request tells which it came to")
    func listeners() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate)
        #expect(try RawClient(port: test.ports[1]).get("/a").status == 200)
        #expect(try test.connectTLS(try ClientContext()).get("/b").status == 200)
        #expect(test.requests.map(\.listener) == [1, 0])
    }

    @Test("a large answer reaches a slow TLS reader whole")
    func largeAnswer() throws {
        let body = (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate, { $0.limits.sendBufferByteCount = 8192 }) {
            $0.respond($1.id, HTTPResponse(status: 200, body: body))
        }
        let client = try test.connectTLS(try ClientContext(), receiveBufferByteCount: 4096)
        #expect(try client.get("/a").body == body)
    }

    @Test("a secure listener without files, with missing files or with the wrong key does not start")
    func faultyFiles() throws {
        let one = try TestCertificate(name: "one.test")
        let two = try TestCertificate(name: "two.test")
        func start(_ files: HTTPConfiguration.TLSFiles?) throws {
            let listener = HTTPConfiguration.Listener(address: "127.0.0.1", port: 0, isSecure: true)
            let server = HTTPServer(configuration: HTTPConfiguration(listeners: [listener], tls: files)) {
                _ in
            }
            _ = try server.start()
        }
        #expect(throws: HTTPServerError.missingCertificate) { try start(nil) }
        let missing = HTTPConfiguration.TLSFiles(
            certificatePath: "/nonexistent", privateKeyPath: "/nonexistent")
        #expect(throws: HTTPServerError.self) { try start(missing) }
        let mixed = HTTPConfiguration.TLSFiles(
            certificatePath: one.files.certificatePath, privateKeyPath: two.files.privateKeyPath)
        #expect(throws: HTTPServerError.self) { try start(mixed) }
        #expect(ERR_peek_error() == 0, "errors stay in the queue of the calling thread")
    }

    @Test("a reload that fails keeps the certificate in use")
    func failedReload() throws {
        let certificate = try TestCertificate(name: "before.test")
        let test = try TestServer(certificate: certificate)
        try Data("no certificate".utf8).write(to: certificate.folder.appendingPathComponent("cert.pem"))
        #expect(throws: HTTPServerError.self) { try test.server.reloadTLS() }
        #expect(try test.connectTLS(try ClientContext()).certificateName == "before.test")
    }

    @Test("a client that leaves without close_notify is told as gone, and the next one is served")
    func truncation() throws {
        let certificate = try TestCertificate(name: "relay.test")
        let test = try TestServer(certificate: certificate, application: TestServer.silence)
        let client = try test.connectTLS(try ClientContext())
        client.send(Text.get())
        let id = try #require(test.request("/a")).id
        client.reset()
        #expect(test.waitForGone(id))
        test.server.respond(id, HTTPResponse(status: 200))
        let next = try test.connectTLS(try ClientContext())
        next.send("GET /b HTTP/1.1\r\nHost: r\r\n\r\n")
        test.server.respond(try #require(test.request("/b")).id, HTTPResponse(status: 200))
        #expect(try next.readResponse().status == 200)
    }

    @Test("writing on to a TLS client that has closed raises no signal")
    func noSignal() throws {
        let certificate = try TestCertificate(name: "relay.test")
        // The sink stands still until the client has closed, so that the loop writes before it sees the
        // close.
        let gate = DispatchSemaphore(value: 0)
        let test = try TestServer(
            certificate: certificate,
            application: { server, request in
                guard request.target == "/a" else { return TestServer.echo(server, request) }
                server.openStream(request.id, headers: [])
                for _ in 0..<10 { server.write(request.id, [UInt8](repeating: 0x61, count: 1000)) }
                gate.wait()
            })
        for round in 1...10 {
            let client = try test.connectTLS(try ClientContext())
            client.send(Text.get())
            let requests = try #require(test.requests(count: round))
            client.close()
            gate.signal()
            #expect(test.waitForGone(requests[round - 1].id))
        }
        let next = try test.connectTLS(try ClientContext())
        #expect(try next.get("/b").status == 200)
    }
}
