import RelayHTTP
import Testing

/// Paths, queries, header writer and dates.
struct MessageTests {
    private func request(_ target: String) -> HTTPRequest {
        HTTPRequest(id: HTTPRequestID(rawValue: 1), method: "GET", target: target)
    }

    @Test("path and query are parted at the first question mark and stay encoded")
    func targetParts() {
        #expect(request("/a%20b?x=1?y").path == "/a%20b")
        #expect(request("/a?x=1?y").query == "x=1?y")
        #expect(request("/a").query == nil)
        #expect(request("/a?").query == "")
    }

    @Test(
        "path segments are decoded once",
        arguments: [
            ("/", []), ("/v1/rooms", ["v1", "rooms"]), ("/a%20b/%C3%A9", ["a b", "\u{e9}"]),
            ("/%252e", ["%2e"]), ("/...", ["..."]),
            ("/a+b", ["a+b"]),
        ])
    func segments(path: String, expected: [String]) {
        #expect(request(path).pathSegments == expected)
    }

    @Test(
        "a path that names nothing has no segments",
        arguments: [
            "/a//b", "/a/", "/.", "/a/../b", "/%2e%2e/x", "/%2E", "/%00", "/a%0d%0a", "/a%2Fb", "/%c0%af",
            "/%ff", "/%7f", "*",
            "/%ed%a0%80",
        ])
    func noSegments(path: String) {
        #expect(request(path).pathSegments == nil)
    }

    @Test("query items are decoded once, in order, with plus as space")
    func queryItems() throws {
        let items = try #require(request("/a?state=joined&x=%26+y&state=2&flag").queryItems)
        #expect(items.map(\.name) == ["state", "x", "state", "flag"])
        #expect(items.map(\.value) == ["joined", "& y", "2", ""])
        #expect(request("/a?x=%0a").queryItems == nil)
        #expect(request("/a?x=%ff").queryItems == nil)
    }

    @Test(
        "a header value with CR, LF, NUL or another control character is refused by the writer",
        arguments: [
            "a\r\nSet-Cookie: x", "a\rb", "a\nb", "a\u{0}b", "a\u{1b}[0m", "a\u{7f}",
        ])
    func splitting(value: String) {
        #expect(throws: ResponseFault.fieldValue) {
            try ResponseWriter.head(
                status: 200, headers: [.init("X", value)], framing: .length(0), date: "", connection: nil)
        }
    }

    @Test(
        "a header name that is no token is refused by the writer",
        arguments: [
            "", "a b", "a:", "a\r\n", "\u{212a}", "a(",
        ])
    func splittingName(name: String) {
        #expect(throws: ResponseFault.fieldName) {
            try ResponseWriter.head(
                status: 200, headers: [.init(name, "x")], framing: .length(0), date: "", connection: nil)
        }
    }

    @Test(
        "the framing fields of an answer are the server's own",
        arguments: [
            "Content-Length", "transfer-encoding", "CONNECTION", "Date",
        ])
    func reserved(name: String) {
        #expect(throws: ResponseFault.reservedField) {
            try ResponseWriter.head(
                status: 200, headers: [.init(name, "x")], framing: .length(0), date: "", connection: nil)
        }
    }

    @Test("an answer whose header would split it becomes 500 and a close")
    func faultyResponse() throws {
        let test = try TestServer { _ in
        } application: { server, request in
            server.respond(request.id, HTTPResponse(status: 201, headers: [.init("Location", "/x\r\nX: y")]))
        }
        let client = try test.connect()
        let response = try client.get("/a")
        #expect(response.status == 500 && response.header("X") == nil)
        #expect(client.readToEnd().isEmpty)
        #expect(test.waitForCounters { $0.faultyResponses == 1 })
    }

    @Test(
        "dates are those of the calendar",
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        ])
    func dates(seconds: Int, text: String) {
        #expect(HTTPDate.text(secondsSince1970: seconds) == text)
    }
}
