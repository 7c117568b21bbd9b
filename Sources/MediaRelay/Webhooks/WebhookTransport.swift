import CCurl
import CLinuxIO
import Glibc
import RTPCore

/// POSTs over libcurl's multi interface: connections are kept and reused, redirects are not followed, TLS is
/// verified, answers are read up to 64 KiB and not kept, everything has a time limit. One thread.
final class WebhookTransport {
    struct Limits: Sendable {
        var connect = Interval.seconds(2)
        /// From the start of a request to the last byte of its answer.
        var total = Interval.seconds(5)
        /// PEM; nil: the system's authorities.
        var authorities: String?
        init() {}
    }

    /// One request of one endpoint.
    struct Request {
        var endpoint: Int
        var token: UInt64
        var url: String
        var headers: [String]
        var body: [UInt8]
        var isLoopback: Bool
    }

    private static let answerByteLimit = 64 * 1024

    /// What libcurl calls back into: outlives its transfer.
    private final class Transfer {
        let endpoint: Int
        let token: UInt64
        let isLoopback: Bool
        var headers: UnsafeMutablePointer<curl_slist>?
        var received = 0
        var isForbidden = false
        init(_ request: Request) {
            endpoint = request.endpoint
            token = request.token
            isLoopback = request.isLoopback
        }
        deinit { curl_slist_free_all(headers) }
    }

    private let multi: UnsafeMutableRawPointer
    private let limits: Limits
    private var transfers: [UnsafeMutableRawPointer: Transfer] = [:]
    private var idle: [UnsafeMutableRawPointer] = []

    /// - Parameter connections: kept at once, open or idle.
    init(limits: Limits, connections: Int) {
        precondition(curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, "libcurl does not start")
        guard let multi = curl_multi_init() else { preconditionFailure("libcurl has no memory") }
        self.multi = multi
        self.limits = limits
        _ = CCurl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, connections)
        _ = CCurl_multi_set_long(multi, CURLMOPT_PIPELINING, 0)
    }

    deinit {
        for easy in transfers.keys {
            curl_multi_remove_handle(multi, easy)
            curl_easy_cleanup(easy)
        }
        for easy in idle { curl_easy_cleanup(easy) }
        curl_multi_cleanup(multi)
    }

    var isIdle: Bool { transfers.isEmpty }

    func post(_ request: Request) {
        guard let easy = idle.popLast() ?? curl_easy_init() else { preconditionFailure("libcurl has no memory") }
        let transfer = Transfer(request)
        transfers[easy] = transfer
        for header in request.headers { transfer.headers = curl_slist_append(transfer.headers, header) }
        setUp(easy, transfer, request)
        let code = curl_multi_add_handle(multi, easy)
        precondition(code == CURLM_OK, "curl_multi_add_handle: \(code.rawValue)")
    }

    private func setUp(_ easy: UnsafeMutableRawPointer, _ transfer: Transfer, _ request: Request) {
        curl_easy_reset(easy)
        var codes: [CURLcode] = []
        func set(_ option: CURLoption, _ value: Int) { codes.append(CCurl_set_long(easy, option, value)) }
        func set(_ option: CURLoption, _ value: String) { codes.append(CCurl_set_text(easy, option, value)) }
        set(CURLOPT_URL, request.url)
        set(CURLOPT_PROTOCOLS_STR, "https,http")
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_FOLLOWLOCATION, 0)
        // No proxy of the environment: what is connected to is what is checked.
        set(CURLOPT_PROXY, "")
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_CONNECTTIMEOUT_MS, Int(limits.connect.milliseconds))
        set(CURLOPT_TIMEOUT_MS, Int(limits.total.milliseconds))
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        if let authorities = limits.authorities { set(CURLOPT_CAINFO, authorities) }
        set(CURLOPT_POST, 1)
        codes.append(CCurl_set_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request.body.count)))
        request.body.withUnsafeBytes { bytes in
            codes.append(
                CCurl_set_pointer(easy, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress)))
        }
        codes.append(CCurl_set_list(easy, CURLOPT_HTTPHEADER, transfer.headers))
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        codes.append(CCurl_set_write(easy, Self.take, context))
        codes.append(CCurl_set_open_socket(easy, Self.open, context))
        precondition(codes.allSatisfy { $0 == CURLE_OK }, "libcurl refuses an option: \(codes.map(\.rawValue))")
    }

    /// Counts an answer's body and lets it go; ends an answer that is too long.
    private static let take: curl_write_callback = { _, size, count, context in
        guard let context else { return 0 }
        let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        transfer.received += size * count
        return transfer.received <= WebhookTransport.answerByteLimit ? size * count : 0
    }

    /// Opens the socket to an address that may be connected to.
    private static let open: curl_opensocket_callback = { context, _, address in
        guard let context, let address else { return curl_socket_t(CURL_SOCKET_BAD) }
        let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        let bytes = withUnsafePointer(to: &address.pointee.addr) { WebhookAddressRule.bytes(of: $0) }
        guard WebhookAddressRule.allows(bytes, loopback: transfer.isLoopback) else {
            transfer.isForbidden = true
            return curl_socket_t(CURL_SOCKET_BAD)
        }
        let type = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        return socket(address.pointee.family, type, address.pointee.protocol)
    }

    /// Moves everything on and gives what has ended.
    func perform() -> [(endpoint: Int, token: UInt64, result: WebhookResult)] {
        var running: Int32 = 0
        let code = curl_multi_perform(multi, &running)
        precondition(code == CURLM_OK, "curl_multi_perform: \(code.rawValue)")
        var ended: [(endpoint: Int, token: UInt64, result: WebhookResult)] = []
        var result = CURLE_OK
        while let easy = CCurl_next_finished(multi, &result) {
            guard let transfer = transfers.removeValue(forKey: easy) else {
                preconditionFailure("libcurl ends what was not begun")
            }
            ended.append((transfer.endpoint, transfer.token, Self.judge(easy, transfer, result)))
            curl_multi_remove_handle(multi, easy)
            // The body is libcurl's copy: not kept for a request that may never come.
            curl_easy_reset(easy)
            idle.append(easy)
        }
        return ended
    }

    private static func judge(
        _ easy: UnsafeMutableRawPointer, _ transfer: Transfer, _ result: CURLcode
    ) -> WebhookResult {
        var status = 0
        _ = CCurl_get_long(easy, CURLINFO_RESPONSE_CODE, &status)
        switch result {
        // An answer that is too long has its status all the same.
        case CURLE_OK, CURLE_WRITE_ERROR:
            switch status {
            case 200..<300: return .delivered
            case 410: return .gone
            default:
                var seconds: curl_off_t = 0
                _ = CCurl_get_size(easy, CURLINFO_RETRY_AFTER, &seconds)
                let retryAfter = seconds > 0 ? Interval.seconds(min(Int64(seconds), 86_400)) : nil
                return .refused(status: status, retryAfter: retryAfter)
            }
        case CURLE_OPERATION_TIMEDOUT:
            return isConnected(easy) ? .timedOut : .unreachable(cause: "no connection in time")
        default:
            if transfer.isForbidden { return .unreachable(cause: "its address may not be connected to") }
            let cause = curl_easy_strerror(result).map { String(cString: $0) } ?? "curl \(result.rawValue)"
            return isConnected(easy) ? .broken(cause: cause) : .unreachable(cause: cause)
        }
    }

    /// TCP and TLS were up, so that it is about the request and not about the endpoint.
    private static func isConnected(_ easy: UnsafeMutableRawPointer) -> Bool {
        var microseconds: curl_off_t = 0
        _ = CCurl_get_size(easy, CURLINFO_PRETRANSFER_TIME_T, &microseconds)
        return microseconds > 0
    }

    /// Waits for libcurl's sockets, for `descriptor` or for the time.
    func wait(for descriptor: Int32, until deadline: Instant, now: Instant) {
        var extra = curl_waitfd(fd: descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
        // Rounded up: a wait that ends just before its deadline would spin.
        let wait = min(max((deadline - now).nanoseconds, 0), 1_000_000_000)
        let code = curl_multi_poll(multi, &extra, 1, Int32((wait + 999_999) / 1_000_000), nil)
        precondition(code == CURLM_OK, "curl_multi_poll: \(code.rawValue)")
    }
}
