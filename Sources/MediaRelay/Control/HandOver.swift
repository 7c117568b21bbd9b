import CLinuxIO
import Glibc
import RelayHTTP

/// What one program leaves to the next in the same process: the API's sockets, the way back, and the key of a node that drew one. It
/// goes through execve(2) in an anonymous file, whose descriptor the environment names. The process stays the same one, so workers
/// stay its children and whoever watches it notices nothing.
///
/// The text is read by programs of other versions: lines that are not known are passed over.
package struct HandOver {
    private static let variable = "MEDIA_RELAY_HANDOVER"

    package var http: HTTPHandover
    /// The image of the program that handed over, open; nil: there is no way back.
    package var image: Int32?
    /// Why the program that was to take over did not: this one is the one from before.
    package var failure: String?
    package var randomSecret: [UInt8]?
    /// Of the program that handed over, its name first: what it is started with when it has to go on after all.
    package var arguments: [String] = []

    package init(http: HTTPHandover, image: Int32?, randomSecret: [UInt8]? = nil) {
        self.http = http
        self.image = image
        self.randomSecret = randomSecret
    }

    // MARK: Text

    package var text: String {
        var lines = ["media-relay handover 1"]
        for listener in http.listeners {
            lines.append("listener \(listener.descriptor) \(listener.port) \(listener.address)")
        }
        for connection in http.connections {
            lines.append("connection \(connection.descriptor) \(connection.listener)")
        }
        if let image { lines.append("image \(image)") }
        for argument in arguments { lines.append("argument " + Self.hex(argument)) }
        if let randomSecret { lines.append("secret " + String(decoding: randomSecret, as: UTF8.self)) }
        if let failure { lines.append("failure " + failure.split(whereSeparator: \.isNewline).joined(separator: "; ")) }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Nil for what is no hand-over.
    package init?(text: String) {
        var lines = text.split(separator: "\n")[...]
        guard lines.popFirst() == "media-relay handover 1" else { return nil }
        self.init(http: HTTPHandover(), image: nil)
        for line in lines {
            let words = line.split(separator: " ", maxSplits: 3).map(String.init)
            let rest = String(line.drop { $0 != " " }.dropFirst())
            switch (words.first ?? "", words.dropFirst().first.flatMap { Int32($0) }) {
            case ("listener", let descriptor?) where words.count == 4:
                guard let port = UInt16(words[2]) else { return nil }
                http.listeners.append(.init(address: words[3], port: port, descriptor: descriptor))
            case ("connection", let descriptor?) where words.count == 3:
                guard let index = Int(words[2]), http.listeners.indices.contains(index) else { return nil }
                http.connections.append(.init(descriptor: descriptor, listener: index))
            case ("image", let descriptor?): image = descriptor
            case ("argument", _):
                guard let argument = Self.text(ofHex: rest) else { return nil }
                arguments.append(argument)
            case ("secret", _): randomSecret = Array(rest.utf8)
            case ("failure", _): failure = rest
            default: break
            }
        }
    }

    /// Any bytes on one line.
    private static func hex(_ text: String) -> String {
        text.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func text(ofHex hex: String) -> String? {
        let digits = hex.compactMap(\.hexDigitValue)
        guard digits.count == hex.count, digits.count % 2 == 0 else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Over execve

    /// Starts `program` in this process with `arguments`. Returns, with the reason, only when that fails.
    package func exec(_ program: String) -> SystemError {
        guard let file = Self.file(with: text) else { return SystemError("hand-over file", code: errno) }
        // Nothing but what is named gets through, whatever a library left open.
        lio_close_on_exec_from(3)
        for descriptor in http.descriptors + [file] + (image.map { [$0] } ?? []) { _ = fcntl(descriptor, F_SETFD, 0) }
        setenv(Self.variable, "\(file)", 1)
        var arguments = self.arguments.map { strdup($0) } + [nil]
        execv(program, &arguments)
        let error = SystemError("start \(program)", code: errno)
        for argument in arguments { free(argument) }
        unsetenv(Self.variable)
        Glibc.close(file)
        return error
    }

    /// What the program before this one left; nil where there was none. To be asked once, before any other process is started.
    package static func taken() -> HandOver? {
        guard let text = getenv(variable).map({ String(cString: $0) }), let file = Int32(text) else { return nil }
        unsetenv(variable)
        defer { Glibc.close(file) }
        guard let handOver = HandOver(text: contents(of: file)) else { return nil }
        for descriptor in handOver.http.descriptors + (handOver.image.map { [$0] } ?? []) {
            guard fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 else { return nil }
        }
        return handOver
    }

    private static func file(with text: String) -> Int32? {
        let file = lio_memory_file("media-relay-handover")
        guard file >= 0 else { return nil }
        let bytes = Array(text.utf8)
        guard write(file, bytes, bytes.count) == bytes.count, lseek(file, 0, SEEK_SET) == 0 else {
            Glibc.close(file)
            return nil
        }
        return file
    }

    private static func contents(of file: Int32) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(file, &buffer, buffer.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }
}
