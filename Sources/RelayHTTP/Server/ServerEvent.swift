/// What the server tells the application, on the server's own thread. A sink must not block there.
public enum ServerEvent: Sendable {
    /// A request. Answer each exactly once by `respond`, `openStream` or `close`, also after its `gone`:
    /// until then it counts among the requests in flight.
    case request(HTTPRequest)
    /// All bytes given by `write` to the stream have left for the kernel: the next page may be written.
    /// Not told for `broadcast`.
    case drained(HTTPRequestID)
    /// The client of a request or stream is gone. A stream's id is forgotten with it; an answer will be
    /// skipped.
    /// Told again for each `write` to a stream that is not there any more.
    case gone(HTTPRequestID)
    /// The server has closed everything and its thread ends. The last event.
    case stopped
}
