import Glibc
import RelayCore

/// One mix on a thread of its own, which yields to everything else.
final class MixThread {
    private static let nice: Int32 = 15

    private let shared = Shared()
    private let thread: Thread

    private final class Shared: @unchecked Sendable {
        // @unchecked: touched under `lock` only.
        private let lock = Lock()
        private var isCancelled = false
        private var outcome: Result<RecordedFile, AudioMixer.Failure>?

        func cancel() { lock.withLock { isCancelled = true } }
        var wantsEnd: Bool { lock.withLock { isCancelled } }
        func end(_ result: Result<RecordedFile, AudioMixer.Failure>) { lock.withLock { outcome = result } }
        var result: Result<RecordedFile, AudioMixer.Failure>? { lock.withLock { outcome } }
    }

    /// - Parameter wakeUp: signalled at the end.
    init(_ inputs: [AudioMixer.Input], in folder: RecordingFolder, wakeUp: WakeUp) throws(SystemError) {
        let shared = shared
        let file: Int32
        do throws(RecordingFolder.Failure) {
            file = try folder.create(AudioMixer.fileName)
        } catch {
            throw SystemError(error.operation, code: error.code)
        }
        let body: @Sendable () -> Void = {
            shared.end(Self.mix(inputs, into: file, shared))
            wakeUp.signal()
        }
        do throws(SystemError) {
            thread = try Thread(named: "mixer", nice: Self.nice, body)
        } catch {
            Syscall.close(file)
            throw error
        }
    }

    private static func mix(
        _ inputs: [AudioMixer.Input], into file: Int32, _ shared: Shared
    ) -> Result<RecordedFile, AudioMixer.Failure> {
        defer { Syscall.close(file) }
        do throws(AudioMixer.Failure) {
            let made = try AudioMixer.mix(inputs, into: file, isCancelled: { shared.wantsEnd })
            return .success(
                RecordedFile(
                    name: AudioMixer.fileName, kind: .mix, byteCount: made.byteCount, durationMs: made.durationMs,
                    offsetMs: 0))
        } catch {
            return .failure(error)
        }
    }

    func cancel() { shared.cancel() }

    var isDone: Bool { shared.result != nil }

    /// Waits for the end. Once.
    func join() -> Result<RecordedFile, AudioMixer.Failure> {
        thread.join()
        guard let result = shared.result else { preconditionFailure("a mix that ended without a result") }
        return result
    }
}
