import Foundation
import RelayCore

/// One configured webhook: where to, in whose words, signed with which secrets. Redacted when printed: a URL may hold
/// a secret too.
package struct WebhookEndpoint: Sendable, CustomStringConvertible {
    /// Names its cursor in the journal, its metrics and its log entries.
    package var name: String
    package var url: String
    /// Several while one replaces another: each request carries a signature by each.
    package var secrets: [WebhookSecret]
    package var dialect: EventDialect
    /// The URL's host is this machine by its own words: then, and only then, it may be connected to.
    package var isLoopback: Bool

    package var description: String { "WebhookEndpoint(\(name), redacted)" }

    package struct Failure: Error, Equatable, CustomStringConvertible {
        package var description: String
    }

    package static let limit = 16
    private static let secretLimit = 8

    /// Endpoints of `NAME=URL`, `NAME=whsec_…` or `NAME=@FILE` (one secret a line) and `NAME=legacy`. No text of a
    /// secret or URL is part of an error.
    package static func endpoints(
        urls: [String], secrets: [String], dialects: [String], allowsPlainHTTP: Bool
    ) throws(Failure) -> [WebhookEndpoint] {
        var endpoints: [WebhookEndpoint] = []
        for text in urls {
            let (name, url) = try pair("--webhook", text)
            guard endpoints.allSatisfy({ $0.name != name }) else { throw failure("--webhook \(name): given twice") }
            let isLoopback = try judge(url, name, allowsPlainHTTP: allowsPlainHTTP)
            endpoints.append(
                WebhookEndpoint(name: name, url: url, secrets: [], dialect: .current, isLoopback: isLoopback))
        }
        guard endpoints.count <= limit else {
            throw failure("--webhook: \(endpoints.count) endpoints; at most \(limit)")
        }
        for text in secrets {
            let (name, value) = try pair("--webhook-secret", text)
            let index = try index(of: name, "--webhook-secret", endpoints)
            endpoints[index].secrets += try self.secrets(value, name)
        }
        for text in dialects {
            let (name, value) = try pair("--webhook-dialect", text)
            guard let dialect = EventDialect(rawValue: value) else {
                throw failure("--webhook-dialect \(name): current or legacy")
            }
            endpoints[try index(of: name, "--webhook-dialect", endpoints)].dialect = dialect
        }
        for endpoint in endpoints where !(1...secretLimit).contains(endpoint.secrets.count) {
            throw failure(
                "--webhook \(endpoint.name): \(endpoint.secrets.count) secrets; 1…\(secretLimit) are needed "
                    + "(--webhook-secret \(endpoint.name)=whsec_… or =@FILE)")
        }
        return endpoints
    }

    private static func failure(_ text: String) -> Failure { Failure(description: text) }

    private static func pair(_ option: String, _ text: String) throws(Failure) -> (String, String) {
        guard let equals = text.firstIndex(of: "="), isIdentifier(String(text[..<equals])) else {
            throw failure("\(option): not NAME=VALUE with a NAME of [A-Za-z0-9._-]{1,128}")
        }
        return (String(text[..<equals]), String(text[text.index(after: equals)...]))
    }

    private static func index(
        of name: String, _ option: String, _ endpoints: [WebhookEndpoint]
    ) throws(Failure) -> Int {
        guard let index = endpoints.firstIndex(where: { $0.name == name }) else {
            throw failure("\(option) \(name): there is no --webhook \(name)")
        }
        return index
    }

    /// Whether the URL is one that may be used; true when it names this machine.
    private static func judge(_ url: String, _ name: String, allowsPlainHTTP: Bool) throws(Failure) -> Bool {
        guard url.utf8.count <= 2_048, url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty
        else { throw failure("--webhook \(name): not a URL of at most 2048 printable characters") }
        guard parts.user == nil, parts.password == nil, parts.fragment == nil else {
            throw failure("--webhook \(name): a URL without user, password and fragment is needed")
        }
        let isLoopback = WebhookAddressRule.isLoopbackName(host)
        switch parts.scheme?.lowercased() {
        case "https": break
        case "http":
            guard isLoopback || allowsPlainHTTP else {
                throw failure(
                    "--webhook \(name): plain HTTP beyond loopback shows events to the network; use https, or "
                        + "--webhook-insecure-http inside a network that you trust")
            }
        default: throw failure("--webhook \(name): only https, and http on loopback")
        }
        return isLoopback
    }

    private static func secrets(_ value: String, _ name: String) throws(Failure) -> [WebhookSecret] {
        var texts = [value]
        if value.hasPrefix("@") {
            guard let data = FileManager.default.contents(atPath: String(value.dropFirst())), data.count <= 4_096 else {
                throw failure("--webhook-secret \(name): its file cannot be read, or has more than 4096 bytes")
            }
            texts = String(decoding: data, as: UTF8.self).split(whereSeparator: \.isWhitespace).map(String.init)
        }
        var secrets: [WebhookSecret] = []
        for text in texts {
            do throws(WebhookSecret.Failure) {
                secrets.append(try WebhookSecret(text))
            } catch {
                throw failure("--webhook-secret \(name): \(error)")
            }
        }
        return secrets
    }
}
