import CLinuxIO
import Glibc

// How system calls are made here: EINTR is retried, an answer that only a bug of ours can cause traps,
// everything else comes back as `SystemError` or as a value. Refuses policy: what to do about an error is the
// caller's.

/// A system call that failed: which one, on what, and the errno.
package struct SystemError: Error, Hashable, CustomStringConvertible {
    /// What was tried, in the operator's words: "bind 127.0.0.1:4000".
    package var operation: String
    package var code: Int32

    package init(_ operation: String, code: Int32) {
        self.operation = operation
        self.code = code
    }

    package var description: String { "\(operation): \(Syscall.text(of: code))" }
}

package enum Syscall {
    /// Repeats `call` while a signal interrupts it. `call` answers -errno on failure, as everything in
    /// CLinuxIO does.
    @inline(__always)
    package static func retrying<Result: SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result != Result(-EINTR) { return result }
        }
    }

    /// The result of `call`, or its error. Traps on errors that only a bug of ours can cause.
    @discardableResult
    package static func checked<Result: SignedInteger>(
        _ operation: @autoclosure () -> String, _ call: () -> Result
    ) throws(SystemError) -> Result {
        let result = retrying(call)
        if result >= 0 { return result }
        let code = Int32(-result)
        trapOnBug(code, operation())
        throw SystemError(operation(), code: code)
    }

    /// A call that cannot fail unless we have a bug (changing an epoll set, signalling our own eventfd).
    @discardableResult
    package static func required<Result: SignedInteger>(_ operation: StaticString, _ call: () -> Result)
        -> Result
    {
        let result = retrying(call)
        precondition(result >= 0, "\(operation): \(text(of: Int32(-result)))")
        return result
    }

    /// Closes a descriptor of ours. Errors of close(2) other than EBADF leave it closed on Linux.
    package static func close(_ descriptor: Int32) {
        if Glibc.close(descriptor) < 0 { trapOnBug(errno, "close") }
    }

    /// EBADF, EFAULT and ENOTSOCK mean that we lost track of a descriptor or of memory: going on would act on
    /// somebody else's.
    @inline(__always)
    package static func trapOnBug(_ code: Int32, _ operation: @autoclosure () -> String) {
        precondition(
            code != EBADF && code != EFAULT && code != ENOTSOCK, "\(operation()): \(text(of: code))")
    }

    package static func text(of code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 128)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        let message = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return "\(String(decoding: message, as: UTF8.self)) (\(code))"
    }
}
