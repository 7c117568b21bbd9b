import COpus
import Glibc
import RTPCore
import RelayCore

/// Makes one file of all voices of a recording: decodes each participant's file, adds them up where they lie in time, encodes the sum. Reads and
/// writes piece by piece, so that a recording of hours takes no more memory than one of seconds. Confined to the thread that runs it.
struct AudioMixer {
    static let fileName = "mix.ogg"
    private static let rate = 48_000
    private static let frameCount = 960
    private static let bitRate: Int32 = 64_000

    struct Input: Sendable {
        var path: String
        /// From the recording's beginning, in samples.
        var offset: Int64
    }

    enum Failure: Error, CustomStringConvertible {
        case interrupted
        case memory
        case unreadable(String)
        case write(RecordingFolder.Failure)

        var description: String {
            switch self {
            case .interrupted: "the worker ended before"
            case .memory: "no memory for a codec"
            case .unreadable(let what): what
            case .write(let failure): failure.description
            }
        }
    }

    /// - Parameter isCancelled: asked for every second of sound.
    /// - Returns: bytes and ms of the file.
    static func mix(
        _ inputs: [Input], into file: Int32, isCancelled: () -> Bool
    ) throws(Failure) -> (byteCount: Int64, durationMs: Int64) {
        var voices: [Voice] = []
        for input in inputs { voices.append(try Voice(input)) }
        guard let encoder = opus_encoder_create(Int32(rate), 1, OPUS_APPLICATION_AUDIO, nil) else { throw .memory }
        defer { opus_encoder_destroy(encoder) }
        var writer = OggOpusWriter(serial: 1, channels: 1, comments: ["TITLE=mix"])
        var byteCount: Int64 = 0
        var packet = [UInt8](repeating: 0, count: Int(bitRate) / 8 / 50 * 2)
        var sum = [Int32](repeating: 0, count: frameCount)
        var samples = [Int16](repeating: 0, count: frameCount)
        var frames = 0
        while true {
            for k in sum.indices { sum[k] = 0 }
            var isOver = true
            for voice in voices {
                if try voice.add(to: &sum) { isOver = false }
            }
            if !isOver {
                for k in sum.indices { samples[k] = Int16(clamping: sum[k]) }
                let count = opus_encode(encoder, samples, Int32(frameCount), &packet, Int32(packet.count))
                guard count > 0 else { throw .memory }
                writer.append(Array(packet[..<Int(count)]), samples: frameCount)
                frames += 1
            }
            guard isOver || frames % 50 == 0 else { continue }
            if isCancelled() { throw .interrupted }
            if isOver { writer.finish() } else { writer.flush() }
            let output = writer.takeOutput()
            do throws(RecordingFolder.Failure) {
                try RecordingFolder.write(output, to: file, at: byteCount, name: fileName)
            } catch {
                throw .write(error)
            }
            byteCount += Int64(output.count)
            if isOver { return (byteCount, writer.sampleCount / 48) }
        }
    }

    /// One participant's file, decoded as it is needed.
    private final class Voice {
        private let file: Int32
        private let decoder: OpaquePointer
        private let path: String
        private var reader = OggOpusReader()
        private var isRead = false
        /// Decoded and not used yet.
        private var waiting: [Int16] = []
        private var block = [Int16](repeating: 0, count: 5_760)
        /// Samples of silence before its first one; negative: so much of it lies before the beginning.
        private var lead: Int64

        init(_ input: Input) throws(Failure) {
            path = input.path
            lead = input.offset
            guard let decoder = opus_decoder_create(Int32(AudioMixer.rate), 1, nil) else { throw .memory }
            file = open(input.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
            self.decoder = decoder
            guard file >= 0 else {
                throw .unreadable("open \(input.path): \(Syscall.text(of: errno))")
            }
        }

        deinit {
            if file >= 0 { Syscall.close(file) }
            opus_decoder_destroy(decoder)
        }

        /// Adds the next frame; false where nothing is left.
        func add(to sum: inout [Int32]) throws(Failure) -> Bool {
            var at = 0
            if lead > 0 {
                at = Int(min(lead, Int64(sum.count)))
                lead -= Int64(at)
            }
            while waiting.count < sum.count - at, try decode() {}
            let count = min(waiting.count, sum.count - at)
            for k in 0..<count { sum[at + k] += Int32(waiting[k]) }
            waiting.removeFirst(count)
            return at > 0 || count > 0
        }

        /// False at the end.
        private func decode() throws(Failure) -> Bool {
            while true {
                let packet: [UInt8]?
                do throws(OggOpusRefusal) {
                    packet = try reader.next()
                } catch {
                    throw .unreadable("\(path): \(error.detail)")
                }
                if let packet {
                    let count = opus_decode(decoder, packet, Int32(packet.count), &block, Int32(block.count), 0)
                    // A packet that does not decode is a hole of its length.
                    let samples =
                        count > 0
                        ? Array(block[..<Int(count)])
                        : [Int16](repeating: 0, count: Int(OpusTOC(packet.span)?.timestampUnits ?? 0))
                    take(samples)
                    return true
                }
                guard !isRead else { return false }
                var bytes = [UInt8](repeating: 0, count: 64 << 10)
                let count = read(file, &bytes, bytes.count)
                guard count > 0 else {
                    isRead = true
                    continue
                }
                reader.append(Array(bytes[..<count]))
            }
        }

        private func take(_ samples: [Int16]) {
            let early = lead < 0 ? Int(min(-lead, Int64(samples.count))) : 0
            lead += Int64(early)
            waiting += samples[early...]
        }
    }
}
