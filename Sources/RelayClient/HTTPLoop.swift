import CCurl
import Foundation

/// HTTP requests over libcurl's multi interface on a thread of its own, which ends with it. Connections are kept,
/// redirects are not followed, TLS is verified. Any thread.
final class HTTPLoop: Sendable {
    struct Request: Sendable {
        var method: String
        var url: String
        var headers: [String]
        var body: [UInt8]?
        var timeoutMs: Int
    }

    struct Answer: Sendable {
        var status: Int
        var body: [UInt8]
        var retryAfterSeconds: Int?
        /// The header of that name.
        var location: String?
    }

    private let worker: Worker

    init(connectMs: Int, authorities: String?) {
        worker = Worker(connectMs: connectMs, authorities: authorities)
        let worker = worker
        Thread.detachNewThread { worker.run() }
    }

    deinit { worker.post(.stop) }

    /// Ends early with `cancelled` when the task is cancelled.
    func send(_ request: Request) async throws(RelayClient.Failure) -> Answer {
        let id = worker.newID()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                worker.post(.start(id, request, continuation))
            }
        } onCancel: {
            worker.post(.cancel(id))
        }
        return try result.get()
    }
}

/// The thread and what it shares.
private final class Worker: @unchecked Sendable {
    // @unchecked: `waiting` and `nextID` are guarded by the lock; everything else is used on the thread only.
    typealias Result = Swift.Result<HTTPLoop.Answer, RelayClient.Failure>

    enum Command {
        case start(UInt64, HTTPLoop.Request, CheckedContinuation<Result, Never>)
        case cancel(UInt64)
        case stop
    }

    /// What libcurl calls back into: outlives its transfer.
    final class Transfer {
        let id: UInt64
        let continuation: CheckedContinuation<Result, Never>
        var headers: UnsafeMutablePointer<curl_slist>?
        var body: [UInt8] = []
        init(_ id: UInt64, _ continuation: CheckedContinuation<Result, Never>) {
            self.id = id
            self.continuation = continuation
        }
        deinit { curl_slist_free_all(headers) }
    }

    private static let bodyByteLimit = 4 << 20
    private let lock = NSLock()
    private var waiting: [Command] = []
    private var nextID: UInt64 = 0
    private let connectMs: Int
    private let authorities: String?
    private let multi: UnsafeMutableRawPointer
    private var transfers: [UnsafeMutableRawPointer: Transfer] = [:]
    /// Cancelled before they were started.
    private var cancelled: Set<UInt64> = []

    init(connectMs: Int, authorities: String?) {
        self.connectMs = connectMs
        self.authorities = authorities
        precondition(curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK, "libcurl does not start")
        guard let multi = curl_multi_init() else { preconditionFailure("libcurl has no memory") }
        self.multi = multi
    }

    deinit { curl_multi_cleanup(multi) }

    func newID() -> UInt64 {
        lock.withLock {
            nextID += 1
            return nextID
        }
    }

    func post(_ command: Command) {
        lock.withLock { waiting.append(command) }
        curl_multi_wakeup(multi)
    }

    func run() {
        while true {
            let commands = lock.withLock {
                defer { waiting = [] }
                return waiting
            }
            for command in commands {
                switch command {
                case .start(let id, let request, let continuation): start(id, request, continuation)
                case .cancel(let id): cancel(id)
                case .stop:
                    for easy in Array(transfers.keys) { end(easy, .failure(.cancelled)) }
                    return
                }
            }
            var running: Int32 = 0
            _ = curl_multi_perform(multi, &running)
            var code = CURLE_OK
            while let easy = CCurl_next_finished(multi, &code) { end(easy, result(of: easy, code)) }
            _ = curl_multi_poll(multi, nil, 0, 1_000, nil)
        }
    }

    private func cancel(_ id: UInt64) {
        guard let easy = transfers.first(where: { $0.value.id == id })?.key else {
            // Its start comes behind, or it has ended: such ones must not add up.
            if cancelled.count >= 1_024 { cancelled.removeAll() }
            cancelled.insert(id)
            return
        }
        end(easy, .failure(.cancelled))
    }

    private func end(_ easy: UnsafeMutableRawPointer, _ result: Result) {
        guard let transfer = transfers.removeValue(forKey: easy) else { return }
        curl_multi_remove_handle(multi, easy)
        curl_easy_cleanup(easy)
        transfer.continuation.resume(returning: result)
    }

    private func start(
        _ id: UInt64, _ request: HTTPLoop.Request, _ continuation: CheckedContinuation<Result, Never>
    ) {
        guard cancelled.remove(id) == nil else { return continuation.resume(returning: .failure(.cancelled)) }
        guard let easy = curl_easy_init() else {
            return continuation.resume(returning: .failure(.unreachable(cause: "out of memory")))
        }
        let transfer = Transfer(id, continuation)
        transfers[easy] = transfer
        for header in request.headers { transfer.headers = curl_slist_append(transfer.headers, header) }
        var codes: [CURLcode] = []
        func set(_ option: CURLoption, _ value: Int) { codes.append(CCurl_set_long(easy, option, value)) }
        func set(_ option: CURLoption, _ value: String) { codes.append(CCurl_set_text(easy, option, value)) }
        set(CURLOPT_URL, request.url)
        set(CURLOPT_PROTOCOLS_STR, "https,http")
        set(CURLOPT_CUSTOMREQUEST, request.method)
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_CONNECTTIMEOUT_MS, connectMs)
        set(CURLOPT_TIMEOUT_MS, request.timeoutMs)
        if let authorities { set(CURLOPT_CAINFO, authorities) }
        if let body = request.body {
            codes.append(CCurl_set_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)))
            body.withUnsafeBytes { bytes in
                codes.append(
                    CCurl_set_pointer(
                        easy, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress)))
            }
        }
        codes.append(CCurl_set_list(easy, CURLOPT_HTTPHEADER, transfer.headers))
        codes.append(CCurl_set_write(easy, Self.take, Unmanaged.passUnretained(transfer).toOpaque()))
        guard codes.allSatisfy({ $0 == CURLE_OK }), curl_multi_add_handle(multi, easy) == CURLM_OK else {
            return end(easy, .failure(.unreachable(cause: "a URL or an option that libcurl does not take")))
        }
    }

    private static let take: curl_write_callback = { bytes, size, count, context in
        guard let context, let bytes else { return 0 }
        let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        let byteCount = size * count
        guard transfer.body.count + byteCount <= Worker.bodyByteLimit else { return 0 }
        transfer.body.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: byteCount))
        return byteCount
    }

    private func result(of easy: UnsafeMutableRawPointer, _ code: CURLcode) -> Result {
        guard let transfer = transfers[easy] else { return .failure(.cancelled) }
        guard code == CURLE_OK else {
            let cause = curl_easy_strerror(code).map { String(cString: $0) } ?? "curl \(code.rawValue)"
            return .failure(.unreachable(cause: cause))
        }
        var status = 0
        _ = CCurl_get_long(easy, CURLINFO_RESPONSE_CODE, &status)
        var seconds: curl_off_t = 0
        _ = CCurl_get_size(easy, CURLINFO_RETRY_AFTER, &seconds)
        var header: UnsafeMutablePointer<curl_header>?
        let hasLocation = curl_easy_header(easy, "Location", 0, 1, -1, &header) == CURLHE_OK
        let location = hasLocation ? header?.pointee.value.map { String(cString: $0) } : nil
        return .success(
            HTTPLoop.Answer(
                status: status, body: transfer.body, retryAfterSeconds: seconds > 0 ? Int(min(seconds, 86_400)) : nil,
                location: location))
    }
}
